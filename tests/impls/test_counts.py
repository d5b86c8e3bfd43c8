"""Work and traffic of single methods, counted by hand."""

from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.api import Workload, io_bytes, nominal_flops
from attnbench.schema.cost import Cost
from tests.impls.contract.subjects import cost_of

FORWARD, BOTH, STEP, TOTAL = Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL
Params = dict[str, Any]


def problem_of(**shape: Any) -> Problem:
    return Problem(**{"B": 2, "H": 4, "N": 1024, "D": 64, **shape})


def cost(name: str, workload: Workload = FORWARD, params: Params | None = None, **shape: Any) -> Cost:
    return cost_of(name, problem_of(**shape), workload, params)


def executed(name: str, workload: Workload = FORWARD, params: Params | None = None, **shape: Any) -> float:
    return cost(name, workload, params, **shape).executed_flops


def seq(name: str, workload: Workload = FORWARD, params: Params | None = None, **shape: Any) -> Cost:
    return cost(name, workload, params, causal=True, **shape)


class TestSoftmax:
    def test_naive_executes_the_square_and_fused_half_of_it(self) -> None:
        square = 2 * 2 * 4 * 1024**2 * 128
        assert executed("softmax.naive", causal=True) == square
        assert executed("softmax.sdpa", causal=True) == pytest.approx(square / 2, rel=0.01)
        assert executed("softmax.sdpa", BOTH) == 3.5 * square
        assert executed("softmax.naive", BOTH) == 3 * square
        assert executed("softmax.naive", N=4096) == 16 * square

    def test_without_a_cache_a_step_costs_the_square_and_a_sequence_the_cube(self) -> None:
        step = seq("softmax.recompute", STEP, N=64)
        assert step.executed_flops == seq("softmax.sdpa", N=64).executed_flops
        short, long = (seq("softmax.recompute", TOTAL, N=N).executed_flops for N in (2048, 4096))
        assert long == pytest.approx(8 * short, rel=1e-2)

    def test_a_step_reads_the_cache_once(self) -> None:
        # q, k, v and o of the one token, 63 tokens of cache read, one written; H = 4, D = M = 8, K = 2, float32
        token = 2 * 4 * (4 * 8 + 2 * 16 + 4 * 8)
        assert seq("softmax.naive", STEP, N=64, D=8, kv_heads=2).traffic_bytes == token + 2 * 4 * 2 * 64 * 16

    @pytest.mark.parametrize("causal", [False, True])
    def test_padding_lessens_what_is_needed_but_not_what_is_nominal(self, causal: bool) -> None:
        problem = Problem(B=3, H=2, N=10, D=4, M=3, padding=0.5, causal=causal)
        pairs = sum(min(i + 1, n) if causal else n for n in problem.lengths for i in range(10))
        found = cost_of("softmax.naive", problem)
        assert found.exact_flops == 2 * 2 * pairs * 7
        assert found.nominal_flops == nominal_flops(problem, FORWARD)

    def test_a_mask_beside_a_causal_call_lets_the_fused_kernel_skip_nothing(self) -> None:
        square = 2 * 2 * 4 * 64 * 64 * 16
        shape: Params = {"N": 64, "D": 8, "causal": True}
        assert executed("softmax.sdpa_flash", padding=0.5, **shape) == square
        assert executed("softmax.sdpa_flash", BOTH, padding=0.5, **shape) == 3.5 * square
        assert executed("softmax.sdpa_flash", **shape) < 0.51 * square


class TestLinear:
    def test_the_chunked_count_is_that_of_its_products(self) -> None:
        # D = 64, W = 72, L = 64: scores and values within a chunk, then the state read and written
        assert seq("linear.chunked").executed_flops == 2 * 2 * 4 * 1024 * (64 * (64 + 72) + 2 * 64 * 72)
        # the tail of 36 tokens is a chunk of its own
        tail = seq("linear.chunked", N=100).executed_flops
        assert tail == 2 * 2 * 4 * ((64**2 + 36**2) * (64 + 72) + 100 * 2 * 64 * 72)

    def test_the_recurrence_executes_what_the_definition_needs_and_a_column(self) -> None:
        found = seq("linear.recurrent")
        assert found.exact_flops == 4 * 2 * 4 * 1024 * 64 * 64
        assert found.executed_flops == 4 * 2 * 4 * 1024 * 64 * 72

    def test_random_features_cost_their_projection(self) -> None:
        tokens, params = 2 * 4 * 1024, {"feature_map": "favor", "features": 100}
        assert cost("linear.full", FORWARD, params).exact_flops == tokens * (4 * 100 * 64 + 4 * 64 * 100)
        # the projection itself has no gradient: one product back, not two
        assert cost("linear.full", BOTH, params).exact_flops == tokens * (3 * 4 * 100 * 64 + 2 * 4 * 64 * 100)

    def test_a_wider_map_costs_more(self) -> None:
        wide = seq("linear.chunked", FORWARD, {"feature_map": "quadratic"})
        assert wide.exact_flops == 4 * 2 * 4 * 1024 * (64 * 65 / 2) * 64

    def test_a_step_moves_the_state(self) -> None:
        step = seq("linear.chunked", STEP)
        state = 2 * 4 * (64 + 1) * 65 * 4
        assert step.exact_flops == 4 * 2 * 4 * 64 * 64
        assert step.traffic_bytes == 2 * 4 * 4 * 64 * 4 + 2 * state

    def test_cuda_kernels_do_the_recurrence_and_once_more_where_segments_are_summed_first(self) -> None:
        tokens = 64 * 8 * 1024
        for shape, workload, exact, done in (
            ({"B": 64, "H": 8, "N": 1024}, FORWARD, 4 * 64**2, 4 * 64**2 + 2 * 64),
            ({"B": 1, "H": 8, "N": 65536}, FORWARD, 4 * 64**2, 6 * 64**2 + 2 * 64),
            ({"B": 64, "H": 8, "N": 1024}, BOTH, 12 * 64**2, 16 * 64**2 + 4 * 64),
        ):
            found = seq("linear.cuda", workload, None, **shape)
            assert (found.exact_flops, found.executed_flops) == (tokens * exact, tokens * done)


class TestRecurrences:
    def test_the_delta_rule_is_counted_by_its_products(self) -> None:
        found = seq("delta.deltanet", FORWARD, {"chunk": 64}, B=1, H=1, N=100, D=32, M=16)
        squares, cubes = 64**2 + 36**2, 64**3 + 36**3
        # K Kᵀ and Q Kᵀ; both sides of the triangular system; the sums over pairs; W S, Kᵀ U and Q S; its inverse
        products = squares * (2 * 2 * 32 + 2 * (32 + 16) + 2 * 16) + 100 * 3 * 2 * 32 * 16
        assert found.executed_flops == products + cubes * 2 / 3
        assert found.exact_flops == 100 * 3 * 2 * 32 * 16
        assert found.traffic_bytes == 4 * 100 * (32 + 32 + 16 + 16 + 1)

    def test_two_writes_a_token_are_counted_as_two(self) -> None:
        found = seq("delta.gated_deltaproduct", FORWARD, {"chunk": 64}, B=1, H=1, N=100, D=32, M=16)
        squares, cubes = 64**2 + 36**2, 64**3 + 36**3
        # K Kᵀ of 2 L writes and Q Kᵀ; both sides of the triangular system; the sums over pairs; W S, Kᵀ U and Q S; its inverse
        products = squares * (6 * 2 * 32 + 4 * 2 * (32 + 16) + 2 * 2 * 16) + 100 * 5 * 2 * 32 * 16
        assert found.executed_flops == products + 8 * cubes * 2 / 3
        assert found.exact_flops == 100 * 5 * 2 * 32 * 16
        # the second key and value, two strengths and a decay
        assert found.traffic_bytes == 4 * 100 * (3 * 32 + 3 * 16 + 2 + 1)

    @pytest.mark.parametrize("name", ["deltanet", "gated_deltanet", "kda", "rwkv7", "gated_deltanet2", "comba", "deltaproduct"])
    def test_a_delta_step_moves_the_state(self, name: str) -> None:
        assert seq(f"delta.{name}", STEP, N=100, D=32, M=16).traffic_bytes > 2 * (2 * 4 * 32 * 16 * 4)

    @pytest.mark.parametrize("name", ["retnet", "lightning", "mamba2", "mamba3", "gla", "hgrn2"])
    def test_gated_chunks_are_counted_by_their_products_and_steps_move_the_state(self, name: str) -> None:
        name = f"gated.{name}"
        # scores and values within a chunk of 64, then the state written and read
        assert seq(name, FORWARD, {"chunk": 64}, M=32).executed_flops == 2 * 2 * 4 * 1024 * (64 * 96 + 2 * 64 * 32)
        # the tail of 36 tokens is a chunk of its own
        tail = seq(name, FORWARD, {"chunk": 64}, B=1, H=1, N=100).executed_flops
        assert tail == 2 * ((64**2 + 36**2) * 128 + 100 * 2 * 64 * 64)
        step = seq(name, STEP, B=1, H=8)
        assert step.executed_flops == 8 * 4 * 64 * 64
        assert step.traffic_bytes > 2 * 8 * 64 * 64 * 4

    @pytest.mark.parametrize(("name", "gates"), [("retnet", 0), ("mamba2", 1), ("mamba3", 3 + 16), ("gla", 64), ("hgrn2", 0)])
    def test_gates_are_read_once_and_their_gradients_written(self, name: str, gates: int) -> None:
        rows = 2 * 3 * 100 * 4
        for workload, times in ((FORWARD, 1), (BOTH, 3)):
            moved = io_bytes(problem_of(H=3, N=100, causal=True), workload)
            assert seq(f"gated.{name}", workload, H=3, N=100).traffic_bytes == moved + times * rows * gates


class TestPatterns:
    def test_hashing_is_counted_and_grows_quadratically(self) -> None:
        attention = 2 * 4 * 1024 * 4 * 4 * 64 * 128
        hashing = 2 * 4 * 1024 * 4 * 64 * 1024 / 64
        assert executed("lsh.reformer_pytorch") == attention + hashing
        assert executed("lsh.reformer_pytorch", BOTH) == 3 * attention + hashing

    @pytest.mark.parametrize("name", ["lsh.reformer_pytorch", "lsh.full"])
    def test_one_tensor_for_queries_and_keys_is_moved_once(self, name: str) -> None:
        for workload, times in ((FORWARD, 3), (BOTH, 8)):
            assert cost(name, workload).traffic_bytes == times * 2 * 4 * 1024 * 64 * 4

    @pytest.mark.parametrize("causal", [False, True])
    def test_shared_queries_and_keys_leave_out_the_own_token(self, causal: bool) -> None:
        found, trained = (cost("lsh.full", workload, N=100, causal=causal) for workload in (FORWARD, BOTH))
        pairs = 100 * 99 / 2 if causal else 100 * 99
        assert found.exact_flops == 2 * 4 * pairs * 2 * 128
        assert found.executed_flops == (1 if causal else 100 / 99) * found.exact_flops
        assert (trained.exact_flops, trained.executed_flops) == (3 * found.exact_flops, 3.5 * found.executed_flops)

    @pytest.mark.parametrize("N", [1, 255, 256, 257, 5000])
    @pytest.mark.parametrize("name", ["blocks.moba", "blocks.nsa"])
    def test_pairs_of_blocks_are_counted_as_the_reference_sees_them(self, name: str, N: int) -> None:
        def exact(workload: Workload, N: int = N) -> float:
            return seq(name, workload, B=1, H=1, N=N, D=1, M=1).exact_flops

        i = torch.arange(N)
        if name == "blocks.moba":
            pairs = int((2 * (i // 256) + 4 * ((i % 256 + 1) + 256 * (i // 256).clamp(max=3))).sum())
        else:
            kept = (i % 64 + 1) + 64 * (i // 64).clamp(max=15) + (i + 1) // 64 + (i + 1).clamp(max=512)
            pairs = int((4 * kept).sum())
        assert exact(FORWARD) == exact(TOTAL) == pairs
        assert exact(STEP) == pairs - (exact(TOTAL, N - 1) if N > 1 else 0)

    @pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
    @pytest.mark.parametrize("name", ["blocks.moba", "blocks.nsa"])
    def test_blocks_need_far_less_than_all_pairs(self, name: str, workload: Workload) -> None:
        found = seq(name, workload, N=2**16)
        assert found.executed_flops < found.nominal_flops / 8

    def test_heads_that_share_keys_read_them_once(self) -> None:
        few, many = (seq("blocks.nsa", STEP, B=1, N=4096, H=8, kv_heads=K).traffic_bytes for K in (1, 8))
        assert 6 < many / few < 8

    def test_the_tiles_of_segments_are_counted_as_they_are_computed(self) -> None:
        # 40 tokens: 3 segments of 16, windows of 16 + 24; positions have one distance more, and W_r comes once a token
        found = seq("context.transformer_xl", FORWARD, {"segment": 16, "memory": 24}, B=1, H=2, N=40, D=8)
        assert found.executed_flops == 2 * 2 * (48 * 40 * 2 * 8 + 48 * 41 * 8 + 40 * 64)
        # keys of tokens 0 … 15, 16 … 31 with 16 before, 32 … 39 with 24 before
        pairs = 2 * 136 + 36 + 16 * 16 + 8 * 24
        assert found.exact_flops == 2 * 2 * (pairs * 3 * 8 + 40 * 64)

    @pytest.mark.parametrize(
        ("sees_itself", "tiles", "pairs"),
        [
            # z = 3, 6: 8 and 11 keys; 7 and 10 queries see all before them, then a shorter tile of 33 and 30
            (True, 7 * 7 + 32 * 39 + 1 * 8 + 10 * 10 + 30 * 40, 36 + 32 * 8 + 66 + 29 * 11),
            # 7 and 10 keys, of 39 queries: 6 and 9, then a shorter tile of 1 more than 32 and 30
            (False, 6 * 6 + 32 * 38 + 1 * 7 + 9 * 9 + 30 * 39, 28 + 32 * 7 + 55 + 29 * 10),
        ],
    )
    def test_each_head_is_computed_by_its_own_span(self, sees_itself: bool, tiles: int, pairs: int) -> None:
        params: Params = {"span": 6, "ramp": 5, "sees_itself": sees_itself}
        found = seq("context.adaptive_span", FORWARD, params, B=1, H=2, N=40, D=8)
        assert (found.executed_flops, found.exact_flops) == (2 * 2 * 8 * tiles, 2 * 2 * 8 * pairs)

    @pytest.mark.parametrize("name", ["strided", "fixed", "local", "atrous", "window", "longformer"])
    def test_what_is_executed_is_between_the_pattern_and_the_square(self, name: str) -> None:
        for workload in (FORWARD, BOTH):
            found = seq(f"sparse.{name}", workload, H=8, N=4096)
            assert found.executed_flops <= 2.7 * found.exact_flops < found.nominal_flops

    def test_tiles_of_a_window_are_counted_as_they_are_computed(self) -> None:
        # a head of 31 queries, causal, one block; then 65 queries: two tiles of 32 with 63 keys, and one of 1 with 32
        pairs = 31 * 31 + 2 * 32 * 63 + 32
        assert seq("sparse.window", FORWARD, {"window": 32}, B=1, H=1, N=96, D=8, M=4).executed_flops == 2 * pairs * 2 * 8

    def test_a_long_causal_sequence_skips_nearly_half_of_the_scores(self) -> None:
        square = executed("sparse.topk", N=8192)
        assert executed("sparse.topk", N=8192, causal=True) == pytest.approx(0.52 * square, rel=0.05)

    @pytest.mark.parametrize(("causal", "share"), [(True, 1 / 2), (False, 2 / 3)])
    def test_whole_buckets_are_computed_of_which_the_window_needs_half_or_two_thirds(self, causal: bool, share: float) -> None:
        for workload in (FORWARD, BOTH):
            found = cost("sparse.local_attention", workload, {"window": 64}, N=65536, causal=causal)
            assert found.exact_flops == pytest.approx(share * found.executed_flops, rel=0.02)


class TestFewerKeys:
    def test_the_learned_form_is_half_projection_and_half_attention(self) -> None:
        learned, mean = (cost(f"linformer.{name}", FORWARD, {"k": 32}) for name in ("linformer", "mean"))
        assert learned.executed_flops == learned.exact_flops == 4 * 2 * 4 * 1024 * 32 * 128
        assert mean.executed_flops == learned.executed_flops / 2

    def test_work_grows_with_the_length_once_there_are_k_tokens(self) -> None:
        work = {N: executed("linformer.linformer", N=N) for N in (64, 128, 256, 512, 1024)}
        assert work[128] == 4 * work[64]
        assert work[1024] == 2 * work[512] == 4 * work[256]

    def test_parameters_are_read_and_their_gradients_written(self) -> None:
        shape: Params = {"B": 1, "H": 8, "N": 65536}
        matrices = 2 * 256 * 65536 * 4
        for workload, times in ((FORWARD, 1), (BOTH, 3)):
            moved = io_bytes(problem_of(**shape), workload)
            assert cost("linformer.linformer", workload, **shape).traffic_bytes == moved + times * matrices
        unshared = cost("linformer.linformer", FORWARD, {"sharing": "none"}, **shape)
        assert unshared.traffic_bytes == io_bytes(problem_of(**shape), FORWARD) + 8 * matrices

    @pytest.mark.parametrize("name", ["linformer.lucidrains", "linformer.tatp22"])
    def test_the_packages_need_as_much_work_as_ours(self, name: str) -> None:
        for workload in (FORWARD, BOTH):
            theirs, ours = (cost(each, workload, {"k": 64}) for each in (name, "linformer.linformer"))
            assert theirs.exact_flops == ours.exact_flops == theirs.executed_flops

    def test_the_work_of_landmarks_is_that_of_their_products(self) -> None:
        found = cost("landmark.nystrom", FORWARD, {"landmarks": 10, "iterations": 2}, B=1, H=1, N=1000, M=32)
        long = 2 * 1000 * 10 * (64 + 64 + 32 + 32)
        small = 2 * 10 * 10 * (64 + 32) + 2 * 4 * 2 * 10**3
        assert found.exact_flops == long + small

    def test_the_package_multiplies_from_the_left_and_so_does_more(self) -> None:
        ours, theirs = (cost(f"landmark.{name}", B=1, H=1, N=4096) for name in ("nystrom", "nystrom_attention"))
        assert theirs.exact_flops == ours.exact_flops
        assert theirs.executed_flops - ours.executed_flops == 2 * 64 * 64 * (4096 - 64)

    def test_tiles_cost_a_small_part_of_the_attention_over_anchors(self) -> None:
        found = cost("landmark.pyramid", B=1, H=8, N=8192)
        assert found.exact_flops == 2 * 8 * 8192 * 110 * 128
        assert found.executed_flops < 1.2 * found.exact_flops

    @pytest.mark.parametrize(("name", "factor"), [("pooling.key_value", 4), ("pooling.funnel", 2)])
    def test_the_scores_are_as_many_times_fewer_as_there_are_tokens_in_a_block(self, name: str, factor: int) -> None:
        forward, both = (cost(name, workload) for workload in (FORWARD, BOTH))
        assert forward.exact_flops == forward.executed_flops == forward.nominal_flops / factor
        assert (both.exact_flops, both.executed_flops) == (3 * forward.exact_flops, 3.5 * forward.executed_flops)

    def test_hidden_blocks_need_no_work(self) -> None:
        # 48 and 32 visible keys
        found = cost("pooling.key_value", N=64, D=8, padding=0.5)
        assert found.exact_flops == 2 * 4 * 64 * (12 + 8) * 16
        assert found.executed_flops == 2 * 4 * 64 * 32 * 16


SMALL: Params = {"H": 3, "D": 4, "M": 6}


class TestQuantisedKeys:
    @pytest.mark.parametrize("N", [1, 7, 8, 9, 16, 17, 100])
    def test_products_are_those_of_what_is_seen(self, N: int) -> None:
        """Keys in windows, queries with a table, distances up to a block, counted one by one."""
        windows = sum(i + 1 - max(0, i // 8 - 1) * 8 for i in range(N))
        tables, distances = sum(i // 8 >= 2 for i in range(N)), sum(min(i, 8) + 1 for i in range(N))
        params: Params = {"codes": 10, "block": 8}
        forward, both = (seq("vq.blockwise", workload, params, N=N, **SMALL) for workload in (FORWARD, BOTH))
        pairs = windows + 10 * tables
        assert forward.exact_flops == forward.executed_flops == 6 * 2 * (N * 10 * 4 + pairs * (4 + 6))
        assert both.exact_flops == forward.exact_flops + 6 * 2 * (windows * 2 * 10 + 10 * tables * (4 + 2 * 6))
        assert both.executed_flops == forward.executed_flops + 6 * 2 * pairs * (3 * 4 + 2 * 6)
        with_positions = seq("vq.blockwise", FORWARD, {**params, "bias": "relative"}, N=N, **SMALL)
        rows = 2 * 3 * min(N, 9) * 4 * 4
        assert with_positions.exact_flops == forward.exact_flops + 6 * 2 * 4 * distances + rows

    def test_without_a_mask_every_query_sees_the_table(self) -> None:
        found = cost("vq.blockwise", FORWARD, {"codes": 10}, N=100, **SMALL)
        assert found.exact_flops == found.executed_flops == 6 * 2 * 100 * 10 * (4 + 4 + 6)

    def test_a_step_costs_no_more_than_a_full_window_wherever_it_stands(self) -> None:
        costs = [seq("vq.blockwise", STEP, B=1, H=8, N=N).exact_flops for N in (10**4, 10**5, 10**6)]
        assert max(costs) <= 2 * 8 * (512 * 64 + (512 + 1024) * 128)
        assert min(costs) >= 2 * 8 * (512 * 64 + (512 + 512) * 128)

    def test_tables_by_products_are_counted(self) -> None:
        serial, matmul = (
            seq("vq.blockwise", FORWARD, {"reduction": how}, B=1, H=8, N=512 * 12) for how in ("serial", "matmul")
        )
        assert matmul.executed_flops - serial.executed_flops == 8 * 2 * 512 * 10 * 10 * 64

    def test_linear_work_is_less_than_dense_from_some_length_on(self) -> None:
        short, long = (seq("vq.blockwise", N=N) for N in (1024, 16384))
        assert long.executed_flops / long.nominal_flops < 0.25 < 1 < short.executed_flops / short.nominal_flops

    def test_a_gate_is_moved_as_well(self) -> None:
        for workload, times in ((FORWARD, 1), (BOTH, 3)):
            plain, gated = (seq(f"vq.{name}", workload, N=100, **SMALL).traffic_bytes for name in ("blockwise", "gau"))
            assert gated - plain == times * 2 * 3 * 100 * 6 * 4
