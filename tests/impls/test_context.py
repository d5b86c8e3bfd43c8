"""Spans that heads learn, and segments with a memory: the formulas of their papers, tiles, odd ends, and what a state holds."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Workload
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
tiling: Any = import_module("attnbench_impls.context.eager.sliding_tiles")

SPAN, SEGMENTS = "context.adaptive_span", "context.transformer_xl"
EITHER = pytest.mark.parametrize("sees_itself", [False, True])


def called(name: str, N: int, params: dict[str, Any], **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 3, "N": N, "D": 8, "M": 5, "causal": True, "dtype": "float64", **shape})
    return Call(Variant(name, params), problem)


def spans_of(N: int, spans: list[float], ramp: float = 8, sees_itself: bool = False, **shape: Any) -> Call:
    """With these spans, one for each head."""
    call = called(SPAN, N, {"span": 20, "ramp": ramp, "sees_itself": sees_itself}, H=len(spans), **shape)
    call.method.z.data.copy_(torch.tensor(spans, dtype=torch.float64))
    return call


@given(N=st.integers(1, 700), window=st.integers(1, 700), length=st.sampled_from([32, 64, 128]), rows=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_tiles_hold_every_query_once_and_all_that_it_sees(N: int, window: int, length: int, rows: int) -> None:
    window = min(window, N)
    held: list[int] = []
    for tile in tiling.tiles(N, window, length, rows):
        for y in range(tile.count):
            first, key = tile.first + y * tile.length, tile.key + y * tile.length
            held += range(first, first + tile.length)
            assert 0 <= key <= max(0, first - window + 1)
            assert key + tile.width == first + tile.length
    assert held == list(range(N))


@EITHER
def test_a_span_is_the_quotient_of_its_paper(sees_itself: bool) -> None:
    call = spans_of(17, [4.3], 3.0, sees_itself, B=1)
    q, k, v = (x[0, 0].detach() for x in call.inputs)
    # the paper's sums end at t - 1: of the first token there is none
    rows = [] if sees_itself else [torch.zeros(5, dtype=torch.float64)]
    for i in range(len(rows), 17):
        masks = [min(max((3.0 + 4.3 - (i - j)) / 3.0, 0.0), 1.0) for j in range(i + sees_itself)]
        weights = torch.stack([m * (q[i] @ k[j] / 8**0.5).exp() for j, m in enumerate(masks)])
        rows.append((weights / weights.sum()) @ v[: len(masks)])
    torch.testing.assert_close(call.results("reference")[0][0, 0], torch.stack(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ramp", [1e-15, 1e-9, 1e-6])
def test_the_last_token_within_a_span_counts_fully_however_narrow_the_ramp(ramp: float) -> None:
    call = spans_of(40, [3.0, 20.0, 33.0], ramp=ramp)
    same(call.results(), call.exact(), 1e-10)
    same([call.decoded(25)], call.exact()[:1], 1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_the_first_token_gives_nothing_and_moves_nothing(dtype: str) -> None:
    call = spans_of(40, [5.5, 20.0], dtype=dtype)
    leaves = [*call.inputs, call.method.z]
    for function in (call.method, call.method.reference):
        o = function(*call.inputs)
        assert not o[:, :, 0].any()
        assert all(not x.any() for x in torch.autograd.grad(o[:, :, 0].sum(), leaves))
        dq, *others = torch.autograd.grad(function(*call.inputs).square().sum(), leaves)
        assert not dq[:, :, 0].any()
        assert all(x.isfinite().all() and x.any() for x in (dq, *others))


@pytest.mark.parametrize("spans", [[0.2, 5.0], [0.0, 0.6], [-3.0, 2.5]], ids=str)
def test_a_head_whose_span_ends_before_the_nearest_key_gives_nothing(spans: list[float]) -> None:
    call = spans_of(30, spans, ramp=0.4)
    same(call.results(), call.exact(), 1e-10)
    assert not call.forward()[:, 0].any()
    same([call.decoded(n) for n in (0, 1, 12)], 3 * call.exact()[:1], 1e-10)


@EITHER
def test_a_span_beyond_the_sequence_is_softmax(sees_itself: bool) -> None:
    call = spans_of(70, [70.0, 1e6], sees_itself=sees_itself)
    q, k, v = (x.detach() for x in call.inputs)
    visible = torch.ones(70, 70, dtype=torch.bool).tril(0 if sees_itself else -1)
    want = (q @ k.mT / 8**0.5).masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0) @ v
    o, *_, dz = call.results()
    assert (dz == 0).all()
    same([o, spans_of(70, [2.0, 3.5], sees_itself=sees_itself).method.exact(q, k, v)], [want, want], 1e-12)


@pytest.mark.parametrize(("dtype", "span"), [("float16", 65536), ("float32", 1e300), ("float64", 1e308)])
def test_a_span_that_the_dtype_cannot_hold_is_endless(dtype: str, span: float) -> None:
    problem = Problem(N=9, D=8, causal=True, dtype=dtype)
    method: Any = build(SPAN, problem, span=span, sees_itself=True)
    inputs = type(method).inputs(problem, torch.Generator().manual_seed(3))
    torch.testing.assert_close(method(*inputs), build("softmax.sdpa", problem)(*inputs))
    assert type(method).cost(problem, {"span": span}, Workload.FORWARD).exact_flops > 0
    assert type(method).span(problem, {"span": span}) == 9


def test_spans_begin_apart_and_the_longest_is_what_was_asked_for() -> None:
    method: Any = build(SPAN, Problem(N=8, H=4, causal=True), span=100)
    assert method.z.tolist() == [25, 50, 75, 100]


# two samples of two heads with the longest span of 20; of three heads with a segment and its memory of 8 + 8
@pytest.mark.parametrize(("call", "kept"), [(spans_of(60, [3.0, 11.7]), 80), (called(SEGMENTS, 60, {"segment": 8}), 96)])
def test_the_state_is_what_can_still_be_reached_whatever_the_capacity(call: Call, kept: int) -> None:
    sizes = [call.method.state_bytes(call.method.prefill(*call.inputs, capacity=n)[1]) for n in (60, 6000)]
    assert sizes == [kept * (8 + 5) * 8] * 2


def test_segments_are_the_papers_sum_over_pairs() -> None:
    call = called(SEGMENTS, 13, {"segment": 4, "memory": 3}, B=1, H=1, D=6)
    q, k, v = (x[0, 0].detach() for x in call.inputs)
    u, w, weight = (x[0].detach() for x in (call.method.u, call.method.w, call.method.W_r))

    def r(x: int) -> Tensor:
        angles = torch.tensor([x / 10000 ** (2 * d / 6) for d in range(3)], dtype=torch.float64)
        return torch.mv(weight, torch.cat((angles.sin(), angles.cos())))

    rows = []
    for i in range(13):
        seen = range(max(0, i // 4 * 4 - 3), i + 1)
        scores = torch.stack([(q[i] + u) @ k[j] + (q[i] + w) @ r(i - j) for j in seen]) / 6**0.5
        rows.append(scores.softmax(0) @ v[seen.start : seen.stop])
    torch.testing.assert_close(call.results("reference")[0][0, 0], torch.stack(rows), rtol=0, atol=1e-10)


def test_the_memory_is_a_constant() -> None:
    call = called(SEGMENTS, 32, {"segment": 8})
    dk, dv = torch.autograd.grad(call.method(*call.inputs)[:, :, 16:24].square().sum(), call.inputs[1:])
    for x in (dk, dv):
        assert [bool(part.any()) for part in x.split((16, 8, 8), 2)] == [False, True, False]


def test_the_table_of_distances_is_that_of_the_sequence() -> None:
    short, long = (called(SEGMENTS, N, {"segment": 1 << 40}) for N in (9, 10))
    assert short.method.sinusoids.shape == (9, 8)
    with pytest.raises(ValueError, match="10 tokens: the table of distances is that of 9"):
        short.method(*long.inputs)
