"""Sparse patterns by FlexAttention: ranges of keys, their blocks, and the union of two calls; compiled for few shapes."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn.attention import flex_attention

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

flex: Any = import_module("attnbench_impls.sparse.flex")
calls: Any = import_module("attnbench_impls.sparse.flex_calls")
blocks: Any = import_module("attnbench_impls.sparse.flex_blocks")
layouts: Any = import_module("attnbench_impls.sparse.flex_layout")
factorised: Any = import_module("attnbench_impls.sparse.factorised")
neighbours: Any = import_module("attnbench_impls.sparse.neighbours")
Shape: Any = import_module("attnbench_impls.sparse.pattern").Shape

Build = Callable[..., Any]
PATTERNS: list[tuple[str, dict[str, Any]]] = [
    ("Strided", {"stride": 5}),
    ("Strided", {"stride": 5, "mode": "per_head", "convention": "code"}),
    ("Strided", {"stride": 5, "mode": "by_layer", "layer": 1}),
    ("Fixed", {"stride": 7, "c": 3}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "per_head", "distinct": False}),
    ("Local", {"stride": 9}),
    ("Atrous", {"stride": 7, "reach": 3}),
    ("Atrous", {"stride": 70}),
    ("Window", {"window": 20}),
    ("Longformer", {"window": 12, "dilation": 2, "globals": 3, "dilated_heads": 1}),
    ("Longformer", {"window": 12, "dilation": 5, "globals": 7}),
]


def build(name: str, problem: Problem, **params: Any) -> Any:
    return getattr(flex, f"Flex{name}")(problem, **params)


def drawn(method: Any) -> tuple[torch.Tensor, ...]:
    inputs: tuple[torch.Tensor, ...] = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    return inputs


@pytest.fixture(params=["with a sink, as on a CPU", "with its logsumexp, as on CUDA"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds methods around FlexAttention's own eager form, which is dense and takes float64."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    if "CUDA" in request.param:
        make = flex.unions
        monkeypatch.setattr(flex, "unions", lambda *args, sink: make(*args, sink=False))
    return build


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2, "M": 5}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_it_is_its_definition_at_any_length(
    name: str, params: dict[str, Any], causal: bool, shape: dict[str, Any], eager: Build
) -> None:
    for N in (1, 63, 150):
        problem = Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": causal, "dtype": "float64", **shape})
        method = eager(name, problem, **params)
        inputs = drawn(method)
        torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


def test_the_future_changes_nothing_before_it_bit_for_bit(eager: Build) -> None:
    for name, params in PATTERNS:
        method = eager(name, Problem(B=1, H=2, N=150, D=8, causal=True), **params)
        q, k, v = drawn(method)
        o = method(q, k, v)
        for x in (q, k, v):
            x[:, :, 100:] = 3 - x[:, :, 100:]
        assert torch.equal(method(q, k, v)[:, :, :100], o[:, :, :100])


def test_a_sink_tells_small_and_large_weights_apart() -> None:
    for shift in (-60.0, 0.0, 60.0):
        scores = torch.randn(50, dtype=torch.float32) + shift
        o = (
            torch.cat([scores, torch.zeros(1)]).softmax(0)
            @ calls.with_sink(torch.zeros(1, 1, 50, 1), torch.ones(1, 1, 50, 1))[1][0, 0]
        )
        mean, logsumexp = calls._without_sink(o)
        assert float(logsumexp) == pytest.approx(float(scores.logsumexp(0)), rel=1e-5, abs=1e-5)
        assert float(mean) == pytest.approx(1)


@pytest.mark.parametrize("size", [95.0, -95.0])
def test_what_a_sink_cannot_tell_is_refused(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    q, v = torch.ones(1, 1, 150, 4), torch.randn(1, 1, 150, 4)
    k = torch.full((1, 1, 150, 4), size / 2)
    problem = Problem(B=1, H=1, N=150, D=4, causal=True)
    with pytest.raises(ValueError, match="beyond ±64"):
        build("Strided", problem)(q, k, v)
    o = build("Strided", problem)(q, k / 2, v)
    torch.testing.assert_close(o, build("Strided", problem).reference(q, k / 2, v), rtol=0, atol=1e-4)
    assert not build("Strided", problem, mode="by_layer")(q, k, v).isnan().any()


def test_lists_that_inference_made_serve_training(eager: Build) -> None:
    method = eager("Strided", Problem(B=1, H=1, N=150, D=8, causal=True))
    inputs = drawn(method)
    with torch.inference_mode():
        method(*inputs)
    lists = [call.back for union in method._calls(inputs[0]) for call in union.calls]
    assert not any(x.is_inference() for x in lists if x is not None)


def test_blocks_are_built_once_for_a_length_and_a_prompt_has_its_own(eager: Build) -> None:
    method = eager("Strided", Problem(B=1, H=1, N=300, D=8, causal=True))
    q = torch.zeros(1, 1, 300, 8)
    assert method._calls(q) is method._calls(q)
    assert [call.layout.first.shape[-1] for union in method._calls(q[:, :, :100]) for call in union.calls] == [100, 100]


MODES = st.sampled_from(["merged", "per_head", "by_layer"])


@st.composite
def fixed(draw: Any) -> Any:
    stride = draw(st.integers(1, 9))
    return factorised.Fixed(stride, draw(MODES), draw(st.integers(0, 1)), draw(st.integers(1, stride)), draw(st.booleans()))


ANY = st.one_of(
    st.builds(factorised.Strided, st.integers(1, 9), MODES, st.integers(0, 1), st.sampled_from(["paper", "code"])),
    fixed(),
    st.builds(neighbours.Atrous, st.integers(1, 40), st.none() | st.integers(0, 5)),
    st.builds(neighbours.Window, st.integers(1, 40)),
    st.builds(neighbours.Longformer, st.integers(1, 12), st.integers(1, 5), st.integers(0, 6), st.none() | st.integers(0, 4)),
)


@given(ANY, st.builds(Shape, st.integers(1, 40), st.integers(1, 4), st.booleans()))
@settings(max_examples=150, deadline=None)
def test_the_ranges_of_all_layouts_hold_each_pair_once(pattern: Any, shape: Any) -> None:
    N, count = shape.N, torch.zeros(shape.H, shape.N, shape.N, dtype=torch.int64)
    for share in layouts.shares(pattern, shape):
        for x in share.layouts:
            tokens = torch.arange(N) if x.order is None else x.order
            for h, head in enumerate(share.heads):
                row = h % x.first.shape[0]
                keys = tokens if x.cells is None else torch.cat([tokens, x.cells[h % x.cells.shape[0]]])
                j = torch.arange(len(keys))
                seen = ((j >= x.first[row, ..., None]) & (j < x.stop[row, ..., None])).sum(0)
                count[head, tokens] += torch.zeros(N, N, dtype=torch.int64).index_add_(1, keys, seen)
    assert torch.equal(count, pattern.seen(shape).long())


@given(pattern=ANY, N=st.integers(1, 700), causal=st.booleans())
# one pair short of whole
@example(pattern=neighbours.Window(508), N=300, causal=False)
@settings(max_examples=25, deadline=None)
def test_blocks_are_those_of_the_ranges(pattern: Any, N: int, causal: bool) -> None:
    """Each pair is in exactly one list of blocks, and a block in the list of whole ones has no hidden pair."""
    for x in (x for share in layouts.shares(pattern, Shape(N, 2, causal)) for x in share.layouts):
        mask = blocks.block_mask(x.first, x.stop, x.keys, torch.device("cpu"))
        j = torch.arange(x.keys)
        dense = ((j >= x.first[..., None]) & (j < x.stop[..., None])).any(1)
        lists = ((mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices))
        partial, full = (pairs_of(*y, N, x.keys) for y in lists)
        assert not (partial & full).any()
        assert ((partial | full) | ~dense).all()
        assert (dense | ~full).all()
        assert int((partial | full).sum()) == blocks.pairs_visited(x.first, x.stop, x.keys)


def pairs_of(number: torch.Tensor, which: torch.Tensor, N: int, S: int) -> torch.Tensor:
    """The listed blocks as bool [heads, N, S]."""
    first = torch.arange(which.shape[-1]) < number[0, ..., None]
    grid = torch.zeros(first.shape, dtype=torch.bool).scatter(-1, which[0].long(), first)
    return grid.repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :N, :S]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        (factorised.Strided(128), 0.10),
        (factorised.Strided(128, "by_layer", 1), 0.04),
        (factorised.Fixed(128, "merged", 0, 32), 0.19),
        (neighbours.Window(128), 0.07),
        (neighbours.Longformer(128, 4, 2), 0.15),
    ],
    ids=str,
)
def test_blocks_really_are_skipped(pattern: Any, most: float) -> None:
    """Of 32 × 32 blocks, of which full causal attention has 52 %, and the natural order of strided and fixed too."""
    shape = Shape(4096, 1, causal=True)
    parts = [x for share in layouts.shares(pattern, shape) for x in share.layouts]
    assert sum(blocks.pairs_visited(x.first, x.stop, x.keys) for x in parts) <= most * 4096**2


@pytest.mark.parametrize(
    ("shape", "device", "workload", "words"),
    [
        ({}, "cpu", Workload.FORWARD, None),
        ({"dtype": "bfloat16", "D": 8}, "cpu", Workload.FORWARD, None),
        ({}, "cpu", Workload.FORWARD_BACKWARD, "no backward on a CPU"),
        ({"dtype": "float64"}, "cpu", Workload.FORWARD, "float32, bfloat16 and float16"),
        ({"padding": 0.5}, "cpu", Workload.FORWARD, "it takes no key mask"),
        ({}, "cuda", Workload.FORWARD_BACKWARD, None),
        ({"D": 8}, "cuda", Workload.FORWARD, "widths from 16: D=8"),
    ],
)
def test_its_limits_are_said_in_words(shape: dict[str, Any], device: str, workload: Workload, words: str | None) -> None:
    said = flex.FlexStrided.refusal(Cell(method="x", problem=Problem(N=64, **shape), device=device, workload=workload))
    assert said is None if words is None else words in (said or "")


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_no_pattern_executes_less_than_its_definition_needs(name: str, params: dict[str, Any]) -> None:
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD):
        cost = getattr(flex, f"Flex{name}").cost(Problem(B=2, H=4, N=300, D=8, causal=True), params, workload)
        assert cost.executed_flops >= cost.exact_flops
        assert cost.peak_bytes > 2 * 4 * 300 * 8 * 4


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The kernels' scratch, which no formula has, grows with the threads; and each compiled shape counts against a limit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def compiled_is_the_same(name: str, params: dict[str, Any], shape: dict[str, Any]) -> None:
    problem = Problem(**{"B": 1, "H": 4, "N": 1000, "D": 64, "causal": True, **shape})
    method = build(name, problem, **params)
    inputs = drawn(method)
    with torch.no_grad():
        o = method(*inputs)
        peak = torch_profiler_peak(lambda: method(*inputs)).bytes
    want = method.reference(*(x.double() for x in inputs)).to(o.dtype)
    eps = 16 * torch.finfo(o.dtype).eps
    torch.testing.assert_close(o, want, rtol=eps, atol=eps)
    assert type(method).cost(problem, params, Workload.FORWARD).peak_bytes == pytest.approx(peak, rel=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_compiled_it_is_the_same() -> None:
    compiled_is_the_same("Window", {"window": 100}, {})


COMPILED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Strided", {}, {}),
    ("Strided", {}, {"dtype": "bfloat16", "causal": False}),
    ("Strided", {"mode": "per_head"}, {"kv_heads": 2, "M": 32}),
    ("Fixed", {}, {}),
    ("Fixed", {"distinct": False}, {"kv_heads": 2}),
    ("Fixed", {"c": 4}, {"kv_heads": 2}),
    ("Atrous", {"stride": 8}, {"causal": False}),
    ("Longformer", {"window": 64, "dilation": 3, "globals": 5}, {}),
]


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("name", "params", "shape"), COMPILED, ids=str)
def test_compiled_every_kind_is_the_same_and_takes_the_memory_that_is_said(
    name: str, params: dict[str, Any], shape: dict[str, Any]
) -> None:
    compiled_is_the_same(name, params, shape)


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_a_gpu_differentiates_it(name: str, params: dict[str, Any], causal: bool, evaluate: Any) -> None:
    torch._dynamo.reset()
    method = build(name, Problem(B=2, H=4, kv_heads=2, N=300, D=64, causal=causal), **params)
    inputs = [x.cuda().requires_grad_() for x in drawn(method)]
    g = torch.randn_like(inputs[0])
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
