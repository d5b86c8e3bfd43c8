"""How the sequence is cut cannot be seen in the result."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build

# by name: installed under another name than that of its folder
prefix: Any = import_module("attnbench_impls.linear.prefix")
segments: Any = import_module("attnbench_impls.linear.segments")
small = st.integers(1, 5)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(small, small, small, small),
    N=st.integers(1, 120),
    chunk=st.one_of(st.none(), st.integers(1, 130)),
    rows=st.sampled_from([1, 64, 4096]),
    heads=st.sampled_from([1, 3, 8]),
    feature_map=st.sampled_from(["elu_plus_one", "favor", "quadratic"]),
)
def test_no_cut_into_chunks_segments_and_groups_changes_values_or_gradients(
    sizes: tuple[int, int, int, int], N: int, chunk: int | None, rows: int, heads: int, feature_map: str
) -> None:
    B, H, D, M = sizes
    problem = Problem(B=B, H=H, N=N, D=D, M=M, causal=chunk is not None, dtype="float64")
    name, params = ("linear.full", {}) if chunk is None else ("linear.chunked", {"chunk": chunk})
    method = build(name, problem, feature_map=feature_map, **params).double()
    inputs = [x.requires_grad_() for x in type(method).inputs(problem, torch.Generator().manual_seed(N))]
    g = torch.randn(B, H, N, M, dtype=torch.float64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "ROWS", rows)
        patch.setattr(segments, "HEADS", heads)
        o = method(*inputs)
        gradients = torch.autograd.grad(o, inputs, g)

    want = method.reference(*inputs)
    torch.testing.assert_close(o, want, rtol=0, atol=1e-10)
    # some gradients are in the hundreds
    torch.testing.assert_close(gradients, torch.autograd.grad(want, inputs, g), rtol=1e-11, atol=1e-10)


@given(N=st.integers(1, 500), B=st.integers(1, 40), C=st.integers(1, 3000), chunk=st.integers(1, 600))
def test_segments_cover_each_token_once_in_whole_chunks(N: int, B: int, C: int, chunk: int) -> None:
    x = torch.empty(B, N, 7, device="meta")
    for cut in (segments.segments(x, C, chunk), segments.whole_segments(x, C)):
        assert [t for s in cut for t in range(s.start, s.stop)] == list(range(N))
        assert all((s.stop - s.start) % s.chunk == 0 for s in cut)


@given(B=st.integers(1, 100))
def test_groups_cover_each_head_once(B: int) -> None:
    assert [b for heads in segments.groups(torch.empty(B, 3, 1)) for b in range(B)[heads]] == list(range(B))


def test_walking_and_scanning_the_states_agree() -> None:
    added, state = torch.randn(2, 5, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    walked, scanned = state.clone(), state.clone()
    torch.testing.assert_close(prefix._walk(added, walked, range(5)), prefix._scan(added, scanned))
    torch.testing.assert_close(walked, scanned)


@pytest.mark.parametrize(("name", "causal"), [("linear.full", False), ("linear.chunked", True), ("linear.recurrent", True)])
class TestAsAnAverage:
    """Weights are positive and sum to one, up to eps."""

    def test_constant_values_come_out_constant(self, name: str, causal: bool, inputs_of: Any) -> None:
        method = build(name, Problem(B=1, H=2, N=150, D=8, causal=causal, dtype="float64"), eps=0.0)
        q, k, _ = inputs_of(method)
        torch.testing.assert_close(method(q, k, torch.ones_like(q)), torch.ones_like(q), rtol=0, atol=1e-12)

    def test_eps_is_added_to_the_denominator(self, name: str, causal: bool) -> None:
        method = build(name, Problem(B=1, H=1, N=1, D=4, causal=causal, dtype="float64"), eps=4.0)
        zero, one = torch.zeros(1, 1, 1, 4, dtype=torch.float64), torch.ones(1, 1, 1, 4, dtype=torch.float64)
        # φ(0)·φ(0) = D = 4, so o = 4 / (4 + 4)
        torch.testing.assert_close(method(zero, zero, one), one / 2)

    def test_a_second_backward_gives_the_same_gradients(self, name: str, causal: bool, inputs_of: Any) -> None:
        method = build(name, Problem(B=1, H=2, N=150, D=8, causal=causal, dtype="float64"))
        inputs = inputs_of(method)
        loss = method(*inputs).square().sum()
        once = torch.autograd.grad(loss, inputs, retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(loss, inputs), once, rtol=0, atol=0)

    def test_the_gradient_is_that_of_finite_differences(self, name: str, causal: bool, inputs_of: Any) -> None:
        method = build(name, Problem(B=1, H=1, N=5, D=2, M=3, causal=causal, dtype="float64"))
        inputs: tuple[Tensor, ...] = inputs_of(method)
        assert torch.autograd.gradcheck(method, inputs)
