"""Decoding sees what the definition sees, from no more than later queries still need."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Workload, io_bytes, nominal_flops, tensors_of
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Measured
from attnbench.workloads.check import check
from attnbench.workloads.decoding import repeated

cache: Any = import_module("attnbench_impls.sparse.cache")
decoding: Any = import_module("attnbench_impls.sparse.decoding")
factorised: Any = import_module("attnbench_impls.sparse.factorised")
family: Any = import_module("attnbench_impls.sparse.family")
neighbours: Any = import_module("attnbench_impls.sparse.neighbours")

TYPES = {
    "strided": factorised.Strided,
    "fixed": factorised.Fixed,
    "local": neighbours.Local,
    "atrous": neighbours.Atrous,
    "window": neighbours.Window,
    "longformer": neighbours.Longformer,
}
PATTERNS: list[tuple[str, dict[str, Any]]] = [
    *(("strided", {"stride": 5, "mode": m, "layer": n}) for m, n in [("merged", 0), ("per_head", 0), ("by_layer", 1)]),
    ("strided", {"stride": 4, "convention": "code"}),
    ("strided", {"stride": 64}),
    *(("fixed", {"stride": 7, "c": 2, "mode": m, "layer": n}) for m, n in [("merged", 0), ("per_head", 0), ("by_layer", 1)]),
    ("fixed", {"stride": 7, "c": 2, "mode": "by_layer"}),
    ("fixed", {"stride": 6, "c": 3, "distinct": False}),
    ("local", {"stride": 6}),
    ("local", {"stride": 6, "convention": "code"}),
    ("atrous", {"stride": 4}),
    ("atrous", {"stride": 4, "reach": 2}),
    ("atrous", {"stride": 4, "reach": 0}),
    ("window", {"window": 1}),
    ("window", {"window": 9}),
    ("longformer", {"window": 5, "dilation": 3, "globals": 4}),
    ("longformer", {"window": 5, "dilation": 3, "globals": 2, "dilated_heads": 2}),
    ("longformer", {"window": 5, "globals": 0}),
    ("longformer", {"window": 5, "globals": 50}),
]
N = 41


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Scratch of the fused kernel, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def method_of(name: str, params: dict[str, Any], **shape: Any) -> Any:
    """The definition as the parallel form, whose decoding is that of all."""

    class Defined(family.SparseAttention):  # type: ignore[misc]
        pattern_type = TYPES[name]

        @classmethod
        def executed_and_peak(cls, problem: Any, pattern: Any, workload: Any) -> tuple[float, float]:
            return 0.0, 0.0

        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            o: Tensor = self.reference(q, k, v)
            return o

    problem = Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": True, "dtype": "float64", **shape})
    return Defined(problem, **params)


def inputs_of(method: Any, seed: int = 3) -> tuple[Tensor, ...]:
    q, k, v = type(method).inputs(method.problem, torch.Generator().manual_seed(seed))
    return q, k, v


def cut(inputs: tuple[Tensor, ...], start: int, stop: int) -> tuple[Tensor, ...]:
    return tuple(x[:, :, start:stop] for x in inputs)


def decoded(method: Any, inputs: tuple[Tensor, ...], n: int, capacity: int | None = None) -> Tensor:
    """All outputs, the first n by `prefill`."""
    tokens = inputs[0].shape[2]
    o, state = method.prefill(*cut(inputs, 0, n), capacity=capacity or tokens)
    outputs = [o]
    for t in range(n, tokens):
        o, state = method.step(*cut(inputs, t, t + 1), state=state)
        outputs.append(o)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("n", [0, 1, N // 2, N])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_decoding_after_a_prompt_is_the_definition(name: str, params: dict[str, Any], n: int) -> None:
    method = method_of(name, params)
    inputs = inputs_of(method)
    torch.testing.assert_close(decoded(method, inputs, n), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_heads_may_share_keys_and_values_have_another_width(name: str, params: dict[str, Any], kv_heads: int) -> None:
    method = method_of(name, params, H=6, kv_heads=kv_heads, M=5, B=1)
    inputs = inputs_of(method)
    torch.testing.assert_close(decoded(method, inputs, 13), method.reference(*inputs), rtol=0, atol=1e-10)


def some(name: str) -> st.SearchStrategy[dict[str, Any]]:
    modes = {"mode": st.sampled_from(["merged", "per_head", "by_layer"]), "layer": st.integers(0, 1)}
    convention = {"convention": st.sampled_from(["paper", "code"])}
    stride, few = st.integers(1, 12), st.integers(0, 4)
    strategies: dict[str, dict[str, Any]] = {
        "strided": {"stride": stride, **modes, **convention},
        "fixed": {"stride": stride, "c": st.integers(1, 3), "distinct": st.booleans(), **modes},
        "local": {"stride": stride, **convention},
        "atrous": {"stride": stride, "reach": st.none() | few},
        "window": {"window": stride},
        "longformer": {"window": stride, "dilation": st.integers(1, 4), "globals": few, "dilated_heads": st.none() | few},
    }
    return st.fixed_dictionaries(strategies[name])


@given(st.data(), st.sampled_from(list(TYPES)), st.sampled_from([(1, 1), (2, 1), (3, 3), (4, 2)]), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_any_pattern_of_any_length_decodes(data: Any, name: str, heads: tuple[int, int], tokens: int) -> None:
    params = data.draw(some(name))
    params |= {"c": min(params["c"], params["stride"])} if "c" in params else {}
    method = method_of(name, params, B=1, H=heads[0], kv_heads=heads[1], N=tokens, D=2)
    inputs, n = inputs_of(method, seed=tokens), data.draw(st.integers(0, tokens))
    room = tokens + data.draw(st.integers(0, 9))
    torch.testing.assert_close(decoded(method, inputs, n, room), method.reference(*inputs), rtol=0, atol=1e-10)


def kept(name: str, tokens: int = 60, n: int = 0, **params: Any) -> float:
    """Entries of a state: pairs of a key and a value, for one head of k and v."""
    method = method_of(name, params, N=tokens)
    _, state = method.prefill(*cut(inputs_of(method), 0, n), capacity=tokens)
    return float(method.state_bytes(state)) / (2 * 4 * (8 + 8) * 8)


@pytest.mark.parametrize("n", [0, 31, 60])
def test_the_state_holds_what_can_still_be_seen_and_no_more(n: int) -> None:
    # a residue's last two are seen from nowhere but near: l + 1 and l (N / l - 2)
    assert kept("strided", n=n, stride=5) == 6 + 5 * 10
    assert kept("strided", n=n, stride=5, convention="code") == 5 + 5 * 11
    assert kept("strided", n=n, stride=5, mode="by_layer") == 6
    assert kept("strided", n=n, stride=5, mode="by_layer", layer=1) == 60
    # the current block, and c of each but the last
    assert kept("fixed", n=n, stride=10, c=3) == 10 + 3 * 5
    assert kept("fixed", n=n, stride=10, c=3, mode="by_layer") == 10
    assert kept("fixed", n=n, stride=10, c=3, mode="by_layer", layer=1) == 3 * 6
    assert kept("local", n=n, stride=5) == 6
    assert kept("local", n=n, stride=5, convention="code") == 5
    assert kept("atrous", n=n, stride=5) == 60
    assert kept("atrous", n=n, stride=5, reach=2) == 5 * 3
    assert kept("window", n=n, window=7) == 7
    assert kept("longformer", n=n, window=7, globals=3) == 7 + 3
    assert kept("longformer", n=n, window=7, globals=3, dilation=4) == 4 * 7 + 3


def test_heads_with_patterns_of_their_own_keep_caches_of_their_own() -> None:
    # two heads of four keep the near tokens, two all
    assert kept("strided", stride=5, mode="per_head") == (2 * 6 + 2 * 60) / 4
    assert kept("fixed", stride=10, c=3, mode="per_head") == (2 * 10 + 2 * 18) / 4
    assert kept("longformer", window=7, globals=0, dilation=2, dilated_heads=1) == (3 * 7 + 14) / 4


def test_a_state_does_not_grow_with_what_it_need_not_keep() -> None:
    assert kept("window", tokens=1000, window=7) == 7
    assert kept("window", tokens=4, window=7) == 4
    assert kept("fixed", tokens=1000, stride=10, c=1) == 10 + 99
    assert kept("longformer", tokens=3, window=7, globals=3) == 3


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_the_state_of_one_sequence_stands_for_a_batch(name: str, params: dict[str, Any]) -> None:
    method = method_of(name, params)
    inputs = inputs_of(method)
    one, token = cut(tuple(x[:1] for x in inputs), 0, 23), cut(inputs, 23, 24)
    want, _ = method.step(*token, state=method.prefill(*(x.repeat(2, 1, 1, 1) for x in one), capacity=N)[1])
    got, after = method.step(*token, state=repeated(method.prefill(*one, capacity=N)[1], 2))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    assert after.length == 24


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_a_step_writes_in_place_and_may_be_taken_twice(name: str, params: dict[str, Any]) -> None:
    method = method_of(name, params)
    inputs = inputs_of(method)
    _, state = method.prefill(*cut(inputs, 0, 20), capacity=N)
    once, after = method.step(*cut(inputs, 20, 21), state=state)
    twice, _ = method.step(*cut(inputs, 20, 21), state=state)
    assert torch.equal(once, twice)
    assert [t.data_ptr() for t in tensors_of(after)] == [t.data_ptr() for t in tensors_of(state)]
    assert (state.length, after.length) == (20, 21)


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_the_prompt_is_copied_not_kept(name: str, params: dict[str, Any]) -> None:
    method = method_of(name, params)
    inputs = inputs_of(method)
    want = method.reference(*inputs)[:, :, 20:21]
    prompt = tuple(x.clone().requires_grad_() for x in cut(inputs, 0, 20))
    _, state = method.prefill(*prompt, capacity=N)
    with torch.no_grad():
        for x in prompt:
            x.zero_()
    o, after = method.step(*cut(inputs, 20, 21), state=state)
    torch.testing.assert_close(o, want, rtol=0, atol=1e-10)
    assert not any(t.requires_grad for t in tensors_of(after))


@pytest.mark.parametrize("name", TYPES)
def test_a_token_beyond_the_capacity_is_refused(name: str) -> None:
    method = method_of(name, {})
    inputs = inputs_of(method)
    _, full = method.prefill(*cut(inputs, 0, 5), capacity=5)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.step(*cut(inputs, 5, 6), state=full)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.prefill(*cut(inputs, 0, 6), capacity=5)


@pytest.mark.parametrize("name", TYPES)
def test_room_for_no_token_takes_none(name: str) -> None:
    method = method_of(name, {})
    _, empty = method.prefill(*cut(inputs_of(method), 0, 0), capacity=0)
    with pytest.raises(ValueError, match="token 1 is beyond the capacity of 0"):
        method.step(*cut(inputs_of(method), 0, 1), state=empty)


@pytest.mark.parametrize("name", TYPES)
def test_no_prompt_gives_no_output(name: str) -> None:
    method = method_of(name, {}, M=3)
    o, state = method.prefill(*cut(inputs_of(method), 0, 0), capacity=N)
    assert o.shape == (2, 4, 0, 3)
    assert state.length == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_a_step_costs_no_accuracy_in_any_dtype(name: str, params: dict[str, Any], dtype: str) -> None:
    method = method_of(name, params, dtype=dtype)
    inputs = inputs_of(method)
    exact = method.reference(*(x.double() for x in inputs))
    eager, got = method.reference(*inputs), decoded(method, inputs, 0)
    assert got.dtype is inputs[0].dtype
    slack = 4 * torch.finfo(got.dtype).eps
    assert (got - exact).abs().max() <= 2 * (eager - exact).abs().max() + slack


@pytest.mark.parametrize("many", [1, 2, 3, 5])
def test_parts_are_merged_as_one_softmax(many: int) -> None:
    scores, values = torch.randn(4, 20, dtype=torch.float64), torch.randn(20, 3, dtype=torch.float64)
    cuts = zip(scores.tensor_split(many, dim=1), values.tensor_split(many), strict=True)
    parts = [(s.softmax(1) @ v, s.logsumexp(1)) for s, v in cuts]
    torch.testing.assert_close(decoding.merged(parts), scores.softmax(1) @ values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 3], ids=["tokens before heads", "tokens last"])
def test_numbers_may_lie_in_memory_in_any_order(dimension: int) -> None:
    method = method_of("strided", {"stride": 5}, kv_heads=2)
    inputs = inputs_of(method)
    swapped = tuple(x.transpose(dimension, 2).contiguous().transpose(dimension, 2) for x in inputs)
    assert torch.equal(decoded(method, swapped, 10), decoded(method, inputs, 10))


@given(st.integers(0, 3), st.integers(1, 5), st.integers(1, 4), st.sampled_from([0, 3, 8]), st.booleans(), st.integers(0, 40))
@example(first=0, size=2, stride=1, block=3, reused=False, n=40)
def test_the_slots_of_a_prompt_are_those_that_its_tokens_were_put_in(
    first: int, size: int, stride: int, block: int, reused: bool, n: int
) -> None:
    residues = 1 if block else stride
    slots = cache.Slots(first, first + 7, size, residues, block, rings=1 if reused else residues + 2, reused=reused)
    held = {slot: token for token in range(n) if (slot := slots.of(token)) is not None}
    where, tokens = slots.latest(n, torch.device("cpu"))
    assert dict(zip(where.tolist(), tokens.tolist(), strict=True)) == dict(sorted(held.items()))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gate_before_each_measurement_lets_decoding_pass(name: str, dtype: str) -> None:
    problem = Problem(B=1, H=2, N=64, D=8, causal=True, dtype=dtype)
    cell = Cell(method=f"sparse.{name}", problem=problem, workload=Workload.DECODE)
    assert load(cell.method).refusal(cell) is None
    # a measurement sets the mode of its process
    with torch.enable_grad():
        assert isinstance(check(Job(cell=cell)), Measured)


@pytest.mark.cuda
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_a_gpu_decodes_the_same(name: str, params: dict[str, Any]) -> None:
    method = method_of(name, params, kv_heads=2)
    inputs = inputs_of(method)
    want = method.reference(*inputs)
    torch.testing.assert_close(decoded(method, tuple(x.cuda() for x in inputs), 13).cpu(), want, rtol=0, atol=1e-10)


class TestCost:
    def cost(self, name: str, params: dict[str, Any], workload: Workload = Workload.DECODE, **shape: Any) -> Any:
        method = method_of(name, params, **shape)
        return type(method).cost(method.problem, params, workload)

    @pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
    def test_a_sequence_computes_what_its_steps_compute(self, name: str, params: dict[str, Any]) -> None:
        steps = [self.cost(name, params, N=n) for n in range(1, N + 1)]
        total = self.cost(name, params, Workload.DECODE_TOTAL)
        for field in ("nominal_flops", "exact_flops", "executed_flops"):
            assert getattr(total, field) == sum(getattr(step, field) for step in steps), field

    @pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
    def test_a_sequence_moves_what_its_steps_move(self, name: str, params: dict[str, Any]) -> None:
        # a cache with room for one token more is written no less; the last steps may keep a token that nobody will see
        steps = sum(self.cost(name, params, N=n).traffic_bytes for n in range(1, N + 1))
        total = self.cost(name, params, Workload.DECODE_TOTAL).traffic_bytes
        assert steps <= total <= steps + N * 2 * 2 * 4 * 16 * 8

    def test_a_step_reads_the_keys_that_are_seen_and_writes_its_own(self) -> None:
        # 16 tokens before and the own one, read and written; B = 2, two heads of k and v, D = M = 8, float64
        found = self.cost("local", {"stride": 16}, kv_heads=2)
        problem = method_of("local", {"stride": 16}, kv_heads=2).problem
        assert found.traffic_bytes == io_bytes(problem, Workload.DECODE) + 2 * 2 * (17 + 1) * (8 + 8) * 8
        assert found.exact_flops == 2 * 2 * 4 * 17 * (8 + 8)
        assert found.nominal_flops == nominal_flops(problem, Workload.DECODE)

    def test_a_window_costs_the_same_wherever_it_stands_and_columns_grow_slowly(self) -> None:
        near, far = (self.cost("window", {"window": 8}, N=n) for n in (100, 1000))
        assert (near.exact_flops, near.traffic_bytes, near.peak_bytes) == (far.exact_flops, far.traffic_bytes, far.peak_bytes)
        near, far = (self.cost("strided", {"stride": 8}, N=n) for n in (800, 1600))
        assert far.exact_flops - near.exact_flops == 2 * 2 * 4 * 100 * (8 + 8)

    @pytest.mark.parametrize("workload", [Workload.DECODE, Workload.DECODE_TOTAL])
    @pytest.mark.parametrize("shape", [{}, {"kv_heads": 2}, {"dtype": "bfloat16"}, {"M": 24}, {"M": 96}], ids=str)
    @pytest.mark.parametrize(
        ("name", "params"),
        [
            ("strided", {"stride": 12}),
            ("strided", {"stride": 12, "mode": "per_head"}),
            ("fixed", {"stride": 12, "c": 4}),
            ("fixed", {"stride": 12, "c": 4, "mode": "by_layer", "layer": 1}),
            ("window", {"window": 12}),
            ("longformer", {"window": 12, "dilation": 2, "globals": 3}),
        ],
        ids=str,
    )
    def test_the_predicted_peak_is_what_torch_allocates(
        self, name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
    ) -> None:
        method = method_of(name, params, **{"B": 16, "N": 50, "D": 64, "dtype": "float32", **shape})
        inputs = inputs_of(method)
        token = tuple(x.clone() for x in cut(inputs, 49, 50))
        _, state = method.prefill(*cut(inputs, 0, 49), capacity=50)

        def sequence() -> object:
            o, state = method.prefill(*cut(inputs, 0, 0), capacity=50)
            for _ in range(50):
                o, state = method.step(*token, state=state)
            return o

        call = sequence if workload is Workload.DECODE_TOTAL else lambda: method.step(*token, state=state)
        call()
        predicted = type(method).cost(method.problem, params, workload).peak_bytes
        assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)
