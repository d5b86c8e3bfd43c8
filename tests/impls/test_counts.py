"""Work and traffic of single methods, counted by hand."""

from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.api import Workload, io_bytes, nominal_flops
from attnbench.schema.cost import Cost
from tests.impls.contract.method import BOTH, FORWARD, STEP, TOTAL, Params
from tests.impls.contract.subjects import cost_of


def cost(name: str, workload: Workload = FORWARD, params: Params | None = None, **shape: Any) -> Cost:
    return cost_of(name, Problem(**{"B": 2, "H": 4, "N": 1024, "D": 64, **shape}), workload, params)


def seq(name: str, workload: Workload = FORWARD, params: Params | None = None, **shape: Any) -> Cost:
    return cost(name, workload, params, causal=True, **shape)


def moved(workload: Workload, **shape: Any) -> float:
    """What goes in and out."""
    return io_bytes(Problem(**{"B": 2, "H": 4, "N": 1024, "D": 64, **shape}), workload)


def row(name: str, workload: Workload = FORWARD, params: Params | None = None, **about: Any) -> Any:
    """A call, and what of its cost is known: `exact` and `executed` operations, and `traffic`; the rest is its shape."""
    fields = {"exact": "exact_flops", "executed": "executed_flops", "traffic": "traffic_bytes"}
    known = {field: about.pop(short) for short, field in fields.items() if short in about}
    return pytest.param(known, name, workload, params, about, id=f"{name} {workload} {[*known]} {params or ''} {about}")


SQUARE, TOKENS = 2 * 2 * 4 * 1024**2 * 128, 2 * 4 * 1024
SEQ: Params = {"causal": True}
ONE: Params = {"B": 1, "H": 1}
SHORT: Params = {**ONE, **SEQ, "N": 100}
SQUARES, CUBES = 64**2 + 36**2, 64**3 + 36**3
"""Of 100 tokens in chunks of 64: the tail of 36 is a chunk of its own."""
CHUNK, FAVOR = {"chunk": 64}, {"feature_map": "favor", "features": 100}
WIDE: Params = {**SHORT, "D": 32, "M": 16, "params": CHUNK}
PATH = 3 * (2 * 128**2 * (7 * 64 + 2 * 128) + 2 * 128 * 64**2) + 3 * 2 * 128 * 64**2
PADDED: Params = {"N": 64, "D": 8, "padding": 0.5}
FEW: Params = {"B": 1, "H": 2, "N": 40, "D": 8, **SEQ}
SPAN: Params = {"span": 6, "ramp": 5}
OWN: Params = {"selected": 1}
SMALL: Params = {"H": 3, "D": 4, "M": 6}
GATED = [f"gated.{name}" for name in ("retnet", "lightning", "mamba2", "mamba3", "gla", "hgrn2")]
DELTA = [f"delta.{name}" for name in ("deltanet", "gated_deltanet", "kda", "rwkv7", "gated_deltanet2", "comba", "deltaproduct")]

COUNTED = [
    row("softmax.naive", executed=SQUARE, **SEQ),
    row("softmax.naive", BOTH, executed=3 * SQUARE),
    row("softmax.sdpa", BOTH, executed=3.5 * SQUARE),
    # q, k, v and o of the one token, 63 tokens of cache read, one written
    row("softmax.naive", STEP, traffic=2 * 4 * (4 * 8 + 2 * 16 + 4 * 8 + 2 * 64 * 16), N=64, D=8, kv_heads=2, **SEQ),
    # a mask beside a causal call lets the fused kernel skip nothing
    row("softmax.sdpa_flash", executed=2 * 2 * 4 * 64 * 64 * 16, **PADDED, **SEQ),
    row("softmax.sdpa_flash", BOTH, executed=3.5 * 2 * 2 * 4 * 64 * 64 * 16, **PADDED, **SEQ),
    # two maps, each as wide as the values
    row("softmax.differential", executed=2 * 2 * 2 * 4 * 64 * 64 * 16, **PADDED, **SEQ),
    # tiles of 256 x 256 are computed whole, and with two columns for the gates, to a multiple of 8
    row("softmax.fox", executed=SQUARE * (10 / 16) * (72 / 64), **SEQ),
    row("softmax.fox", BOTH, executed=3.5 * 2 * 256**2 * 21 * 144, N=1536, **ONE, **SEQ),
    # three tiles of 128: seven products of D = 64, two of 128 and P in each, three times a tile is crossed; and three inverses
    row("softmax.path", executed=384 * 385 * 128 + PATH + 2 * 128**3, N=384, **ONE, **SEQ),
    row("softmax.path", BOTH, executed=3.5 * 384 * 385 * 128 + 4 * PATH + 2 * 2 * 128**3, N=384, **ONE, **SEQ),
    # a step reflects the keys of each head of k and v
    row("softmax.path", STEP, exact=2 * 8 * 1024 * 128 + 2 * 1023 * 4 * 64, H=8, kv_heads=2, B=1, **SEQ),
    # kept in float32, all keys are written again; sums of log gates in float64
    row("softmax.path", STEP, traffic=2 * 1410 + 8 * (1024 * 128 + 1023 * 64), H=8, kv_heads=2, B=1, dtype="float16", **SEQ),
    row("softmax.fox", STEP, traffic=4 * (1152 + 1024 * 128 + 8) + 8 * 8 * 1024, H=8, kv_heads=1, B=1, **SEQ),
    row("softmax.mla", STEP, traffic=4 * (4 * (128 + 256 * (43 + 64)) + 277 * 1025), B=1, **SEQ),
    # D = 64, W = 72, L = 64: scores and values within a chunk, then the state read and written
    row("linear.chunked", executed=2 * TOKENS * (64 * (64 + 72) + 2 * 64 * 72), **SEQ),
    row("linear.chunked", executed=2 * (SQUARES * (64 + 72) + 100 * 2 * 64 * 72), **SHORT),
    # what the definition needs, and a column
    row("linear.recurrent", exact=4 * TOKENS * 64 * 64, executed=4 * TOKENS * 64 * 72, **SEQ),
    # random features have a projection, which has no gradient itself: one product back, not two
    row("linear.full", exact=TOKENS * (4 * 100 * 64 + 4 * 64 * 100), params=FAVOR),
    row("linear.full", BOTH, exact=TOKENS * (3 * 4 * 100 * 64 + 2 * 4 * 64 * 100), params=FAVOR),
    row("linear.chunked", exact=4 * TOKENS * (64 * 65 / 2) * 64, params={"feature_map": "quadratic"}, **SEQ),
    # a step moves the state
    row("linear.chunked", STEP, exact=8 * 4 * 64 * 64, traffic=8 * 4 * 64 * 4 + 2 * 8 * (64 + 1) * 65 * 4, **SEQ),
    # kernels do the recurrence, and once more where segments are summed first
    row("linear.cuda", exact=64 * TOKENS * 4 * 64**2, executed=64 * TOKENS * (4 * 64**2 + 2 * 64), B=64, H=8, **SEQ),
    row("linear.cuda", executed=64 * TOKENS * (6 * 64**2 + 2 * 64), B=1, H=8, N=65536, **SEQ),
    row("linear.cuda", BOTH, exact=64 * TOKENS * 12 * 64**2, executed=64 * TOKENS * (16 * 64**2 + 4 * 64), B=64, H=8, **SEQ),
    # heads of q that share k and v share φ(k) vᵀ too, whoever repeats them
    *(row(f"linear.{name}", exact=2 * 5 * 1024 * 2 * 64**2, kv_heads=1, **SEQ) for name in ("chunked", "cuda", "triton")),
    # what is needed; q, k, v, o and a strength
    row("delta.deltanet", exact=100 * 3 * 1024, traffic=400 * (32 + 32 + 16 + 16 + 1), **WIDE),
    # K Kᵀ and Q Kᵀ; both sides of the triangular system; the sums over pairs; W S, Kᵀ U and Q S; its inverse
    row("delta.deltanet", executed=SQUARES * (2 * 2 * 32 + 2 * 48 + 2 * 16) + 100 * 3 * 2 * 32 * 16 + CUBES * 2 / 3, **WIDE),
    # a step reads where its mini-batch began, too
    row("delta.ttt_linear", STEP, traffic=4 * 4 * (256 + 1 + 3 * 65 * 64), B=1, **SEQ),
    # two writes a token: a second key and value, two strengths and a decay; K Kᵀ of 2 L
    row("delta.gated_deltaproduct", exact=100 * 5 * 1024, traffic=400 * (3 * 32 + 3 * 16 + 2 + 1), **WIDE),
    row("delta.gated_deltaproduct", executed=SQUARES * (6 * 64 + 4 * 96 + 2 * 32) + 1000 * 512 + 8 * CUBES * 2 / 3, **WIDE),
    # scores and values within a chunk of 64, then the state written and read
    *(row(name, executed=2 * TOKENS * (64 * 96 + 2 * 64 * 32), M=32, params=CHUNK, **SEQ) for name in GATED),
    *(row(name, executed=2 * (SQUARES * 128 + 100 * 2 * 64 * 64), params=CHUNK, **SHORT) for name in GATED),
    *(row(name, STEP, executed=8 * 4 * 64 * 64, B=1, H=8, **SEQ) for name in GATED),
    # scores of slots by a backward that repeats the forward, values by one of its own
    row("gated.gsa", BOTH, executed=2 * TOKENS * (4 * (64 * 128 + 2 * 4096) + 64 * 7 * 64 + 7 * 4096), params=CHUNK, **SEQ),
    # one tensor for queries and keys is moved once; hashing grows with the square
    *(row(f"lsh.{name}", traffic=3 * TOKENS * 64 * 4) for name in ("full", "reformer_pytorch")),
    *(row(f"lsh.{name}", BOTH, traffic=8 * TOKENS * 64 * 4) for name in ("full", "reformer_pytorch")),
    row("lsh.reformer_pytorch", executed=TOKENS * 4 * (4 * 64 * 128 + 64 * 1024 / 64)),
    row("lsh.reformer_pytorch", BOTH, executed=TOKENS * 4 * (3 * 4 * 64 * 128 + 64 * 1024 / 64)),
    # the own token is left out
    row("lsh.full", exact=8 * 100 * 99 * 2 * 128, executed=8 * 100 * 100 * 2 * 128, N=100),
    row("lsh.full", exact=8 * 100 * 99 * 128, executed=8 * 100 * 99 * 128, N=100, **SEQ),
    row("lsh.full", BOTH, exact=3 * 8 * 100 * 99 * 128, executed=3.5 * 8 * 100 * 99 * 128, N=100, **SEQ),
    # 40 tokens: 3 segments of 16, windows of 16 + 24; positions have one distance more, and W_r comes once a token;
    # keys of tokens 0 … 15, 16 … 31 with 16 before, 32 … 39 with 24 before
    row(
        "context.transformer_xl",
        executed=4 * (48 * 40 * 2 * 8 + 48 * 41 * 8 + 40 * 64),
        exact=4 * ((2 * 136 + 36 + 16 * 16 + 8 * 24) * 3 * 8 + 40 * 64),
        params={"segment": 16, "memory": 24},
        **FEW,
    ),
    # z = 3, 6: 8 and 11 keys; 7 and 10 queries see all before them, then a shorter tile of 33 and 30
    row(
        "context.adaptive_span",
        executed=32 * (7 * 7 + 32 * 39 + 1 * 8 + 10 * 10 + 30 * 40),
        exact=32 * (36 + 32 * 8 + 66 + 29 * 11),
        params={**SPAN, "sees_itself": True},
        **FEW,
    ),
    # 7 and 10 keys, of 39 queries: 6 and 9, then a shorter tile of 1 more than 32 and 30
    row(
        "context.adaptive_span",
        executed=32 * (6 * 6 + 32 * 38 + 1 * 7 + 9 * 9 + 30 * 39),
        exact=32 * (28 + 32 * 7 + 55 + 29 * 10),
        params=SPAN,
        **FEW,
    ),
    # a head of 31 queries, causal, one block; then 65 queries: two tiles of 32 with 63 keys, and one of 1 with 32
    row("sparse.window", executed=32 * (31 * 31 + 2 * 32 * 63 + 32), params={"window": 32}, N=96, D=8, M=4, **ONE, **SEQ),
    row("sparse.window", STEP, exact=2 * 32 * 12, executed=2 * 32 * 16, params={"window": 32}, N=96, D=8, M=4, **ONE, **SEQ),
    # 64 blocks, of which 16 and the 15 places after the last one are listed
    row("sparse.qsa", STEP, executed=2 * (2 * 2 * 32 * 64 + 4 * 2 * 128 * (256 + 15)), **SEQ),
    row("blocks.moba", exact=2 * 8 * 4 * 256 * 257 / 2 * 128, params={"topk": 1}, **SEQ),
    # the own block alone needs no scores, and no index keys from the cache
    row("blocks.msa", exact=2 * 8 * 128 * 8 * 128 * 129 / 2, executed=8 * 4 * 64 * 8 * 32 * 320, params=OWN, **SEQ),
    row("blocks.msa", STEP, exact=2 * 8 * 128 * 128, traffic=4 * (2048 + 2 * 64 * 5 + 8 * 128 * 128), params=OWN, **SEQ),
    # inputs are read twice and have gradients, o is written and dL/do read; a scorer's inputs are read once
    row("blocks.hca", BOTH, traffic=TOKENS * 64 * (5 * 4 + 3 * 3), kv_heads=1, **SEQ),
    row("blocks.csa", BOTH, traffic=TOKENS * (64 * (5 * 4 + 3 * 5) + 2 * 33 + 4 * 32), kv_heads=1, **SEQ),
    row("blocks.csa", executed=2 * 2 * 8 * 2 * 40 * (40 + 10) + 2 * 5 * 40 * 10, kv_heads=1, params={"k": 90}, **FEW),
    # half projection and half attention
    row("linformer.linformer", exact=4 * TOKENS * 32 * 128, executed=4 * TOKENS * 32 * 128, params={"k": 32}),
    row("linformer.linformer", exact=4 * 2 * 4 * 64 * 64 * 128, params={"k": 256}, N=64),
    row("linformer.mean", executed=2 * TOKENS * 32 * 128, params={"k": 32}),
    # products with the tokens, and those of landmarks with landmarks
    row(
        "landmark.nystrom",
        exact=2 * 1000 * 10 * (64 + 64 + 32 + 32) + 2 * 10 * 10 * (64 + 32) + 2 * 4 * 2 * 10**3,
        params={"landmarks": 10, "iterations": 2},
        N=1000,
        M=32,
        **ONE,
    ),
    row("landmark.pyramid", exact=2 * 8 * 8192 * 110 * 128, B=1, H=8, N=8192),
    # as many times fewer scores as there are tokens in a block
    row("pooling.key_value", exact=SQUARE / 4, executed=SQUARE / 4),
    row("pooling.key_value", BOTH, exact=3 * SQUARE / 4, executed=3.5 * SQUARE / 4),
    row("pooling.funnel", exact=SQUARE / 2, executed=SQUARE / 2),
    row("pooling.funnel", BOTH, exact=3 * SQUARE / 2, executed=3.5 * SQUARE / 2),
    # hidden blocks need no work: 48 and 32 visible keys
    row("pooling.key_value", exact=2 * 4 * 64 * (12 + 8) * 16, executed=2 * 4 * 64 * 32 * 16, **PADDED),
    # choosing costs all scores once, and attending only those of the kept
    row("pooling.power_bert", exact=16 * (100**2 * 8 + 25**2 * 14), params={"keep": 0.25}, N=100, D=8, M=6),
    row("pooling.power_bert", BOTH, exact=16 * (100**2 * 8 + 3 * 25**2 * 14), params={"keep": 0.25}, N=100, D=8, M=6),
    # without a mask every query sees the table
    row("vq.blockwise", exact=12 * 1000 * 14, executed=12 * 1000 * (4 + 12), params={"codes": 10}, N=100, **SMALL),
    row("vq.quantised", exact=12 * 1000 * 104, executed=12 * 1000 * (4 + 120), params={"codes": 10}, N=100, **SMALL),
    row("vq.blockwise", STEP, executed=12 * (40 + 100 * 12), params={"codes": 10}, N=100, **SMALL, **SEQ),
]


@pytest.mark.parametrize(("counts", "name", "workload", "params", "shape"), COUNTED)
def test_what_is_counted_is_what_is_done(
    counts: dict[str, float], name: str, workload: Workload, params: Params, shape: Params
) -> None:
    found = cost(name, workload, params, **shape)
    assert {field: getattr(found, field) for field in counts} == counts


GATES = {"gated.retnet": 0, "gated.mamba2": 1, "gated.mamba3": 3 + 16, "gated.gla": 64, "gated.hgrn2": 0, "vq.gau": 6}


@pytest.mark.parametrize("name", GATES)
def test_gates_are_read_once_and_their_gradients_written(name: str) -> None:
    shape: Params = {**SMALL, "N": 100, **SEQ} if name == "vq.gau" else {"H": 3, "N": 100, **SEQ}
    for workload, times in ((FORWARD, 1), (BOTH, 3)):
        # vq reads its codes too
        plain = cost("vq.blockwise", workload, **shape).traffic_bytes if name == "vq.gau" else moved(workload, **shape)
        assert cost(name, workload, **shape).traffic_bytes == plain + times * 2 * 3 * 100 * 4 * GATES[name]


@pytest.mark.parametrize("name", [*DELTA, *GATED])
def test_a_step_moves_the_state(name: str) -> None:
    assert seq(name, STEP, N=100, D=32, M=16).traffic_bytes > 2 * (2 * 4 * 32 * 16 * 4)


class TestSoftmax:
    def test_fused_it_executes_half_of_the_square(self) -> None:
        assert seq("softmax.sdpa").executed_flops == pytest.approx(SQUARE / 2, rel=0.01)
        assert seq("softmax.sdpa_flash", N=64, D=8).executed_flops < 0.51 * 2 * 2 * 4 * 64 * 64 * 16

    def test_without_a_cache_a_step_costs_the_square(self) -> None:
        assert seq("softmax.recompute", STEP, N=64).executed_flops == seq("softmax.sdpa", N=64).executed_flops

    @pytest.mark.parametrize("causal", [False, True])
    def test_padding_lessens_what_is_needed_but_not_what_is_nominal(self, causal: bool) -> None:
        problem = Problem(B=3, H=2, N=10, D=4, M=3, padding=0.5, causal=causal)
        pairs = sum(min(i + 1, n) if causal else n for n in problem.lengths for i in range(10))
        found = cost_of("softmax.naive", problem)
        assert found.exact_flops == 2 * 2 * pairs * 7
        assert found.nominal_flops == nominal_flops(problem, FORWARD)


class TestPatterns:
    @pytest.mark.parametrize("N", [1, 255, 256, 257, 5000])
    @pytest.mark.parametrize("name", ["blocks.moba", "blocks.nsa"])
    def test_pairs_of_blocks_are_counted_as_the_reference_sees_them(self, name: str, N: int) -> None:
        def exact(workload: Workload, N: int = N) -> float:
            return seq(name, workload, **ONE, N=N, D=1, M=1).exact_flops

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

    @pytest.mark.parametrize("name", ["strided", "fixed", "local", "atrous", "window", "longformer"])
    def test_what_is_executed_is_between_the_pattern_and_the_square(self, name: str) -> None:
        for workload in (FORWARD, BOTH):
            found = seq(f"sparse.{name}", workload, H=8, N=4096)
            assert found.executed_flops <= 2.7 * found.exact_flops < found.nominal_flops

    def test_a_long_causal_sequence_skips_nearly_half_of_the_scores(self) -> None:
        square, half = (cost("sparse.topk", N=8192, causal=causal).executed_flops for causal in (False, True))
        assert half == pytest.approx(0.52 * square, rel=0.05)

    @pytest.mark.parametrize(("causal", "share"), [(True, 1 / 2), (False, 2 / 3)])
    def test_whole_buckets_are_computed_of_which_the_window_needs_half_or_two_thirds(self, causal: bool, share: float) -> None:
        for workload in (FORWARD, BOTH):
            found = cost("sparse.local_attention", workload, {"window": 64}, N=65536, causal=causal)
            assert found.exact_flops == pytest.approx(share * found.executed_flops, rel=0.02)


class TestFewerKeys:
    def test_parameters_are_read_and_their_gradients_written(self) -> None:
        shape: Params = {"B": 1, "H": 8, "N": 65536}
        matrices = 2 * 256 * 65536 * 4
        for workload, times in ((FORWARD, 1), (BOTH, 3)):
            assert cost("linformer.linformer", workload, **shape).traffic_bytes == moved(workload, **shape) + times * matrices
        unshared = cost("linformer.linformer", FORWARD, {"sharing": "none"}, **shape)
        assert unshared.traffic_bytes == moved(FORWARD, **shape) + 8 * matrices

    @pytest.mark.parametrize("name", ["linformer.lucidrains", "linformer.tatp22"])
    def test_the_packages_need_as_much_work_as_ours(self, name: str) -> None:
        for workload in (FORWARD, BOTH):
            theirs, ours = (cost(each, workload, {"k": 64}) for each in (name, "linformer.linformer"))
            assert theirs.exact_flops == ours.exact_flops == theirs.executed_flops

    def test_the_package_of_landmarks_multiplies_from_the_left_and_so_does_more(self) -> None:
        ours, theirs = (cost(f"landmark.{name}", **ONE, N=4096) for name in ("nystrom", "nystrom_attention"))
        assert theirs.exact_flops == ours.exact_flops
        assert theirs.executed_flops - ours.executed_flops == 2 * 64 * 64 * (4096 - 64)

    def test_tiles_cost_a_small_part_of_the_attention_over_anchors(self) -> None:
        found = cost("landmark.pyramid", B=1, H=8, N=8192)
        assert found.executed_flops < 1.2 * found.exact_flops


class TestQuantisedKeys:
    @pytest.mark.parametrize("N", [1, 7, 8, 9, 16, 17, 100])
    def test_products_are_those_of_what_is_seen(self, N: int) -> None:
        """Keys in windows, queries with a table, distances up to a block, counted one by one."""
        windows = sum(i + 1 - max(0, i // 8 - 1) * 8 for i in range(N))
        tables, distances = sum(i // 8 >= 2 for i in range(N)), sum(min(i, 8) + 1 for i in range(N))
        params, shape = {"codes": 10, "block": 8}, {**SMALL, "N": N}
        forward, both = (seq("vq.blockwise", workload, params, **shape) for workload in (FORWARD, BOTH))
        pairs = windows + 10 * tables
        assert forward.exact_flops == 6 * 2 * (N * 10 * 4 + pairs * (4 + 6))
        assert both.exact_flops == forward.exact_flops + 6 * 2 * (windows * 2 * 10 + 10 * tables * (4 + 2 * 6))
        # padded to one width
        assert forward.executed_flops == 6 * 2 * (N * 10 * 4 + pairs * (6 + 6))
        assert both.executed_flops == forward.executed_flops + 6 * 2 * pairs * 5 * 6
        forward_at, both_at = (seq("vq.blockwise", each, {**params, "bias": "relative"}, **shape) for each in (FORWARD, BOTH))
        rows = 2 * 3 * min(N, 9) * 4 * 4
        assert forward_at.exact_flops == forward.exact_flops + 6 * 2 * 4 * distances + rows
        # the backward of a bias pads nothing; own blocks are squares, of which the last may be smaller
        squares, reach = windows + sum(n * (n - 1) / 2 for n in (*[8] * (N // 8), N % 8)), min(N, 8) + 1
        slopes = squares * (3 * 4 + 2 * 6) + 10 * tables * 5 * 6 + 3 * 4 * N * reach
        assert both_at.executed_flops - forward_at.executed_flops == 6 * 2 * slopes + 2 * 2 * 3 * reach * 4 * 4

    def test_tables_by_products_are_counted(self) -> None:
        how = ({"reduction": "serial"}, {"reduction": "matmul"})
        serial, matmul = (seq("vq.blockwise", FORWARD, each, B=1, H=8, N=512 * 12).executed_flops for each in how)
        assert matmul - serial == 8 * 2 * 512 * 10 * 10 * 64
