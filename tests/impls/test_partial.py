"""Softmax over parts of the keys, merged, is softmax over all of them; and triangular systems by inverses of blocks."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

# by name: installed under another name than that of its folder
softmax: Any = import_module("attnbench_impls.partial.softmax")
triangular: Any = import_module("attnbench_impls.partial.triangular")
Rule = softmax.Rule


@pytest.fixture(params=["fused", "shared", "plain"])
def form(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the fused kernel, by the same with two cores for each x and y, and in plain torch."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 12 if request.param == "shared" else 1)
    if request.param == "plain":
        monkeypatch.setattr(softmax, "is_fused", lambda _: False)


def tensors(S: int, M: int = 6) -> list[Tensor]:
    shapes = [(2, 3, 6, 4), (2, 3, S, 4), (2, 3, S, M)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def dense(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (q @ k.mT * 0.3 + bias).softmax(-1) @ v


def parts_of(q: Tensor, k: Tensor, v: Tensor, rules: list[Any], cuts: list[slice]) -> tuple[Tensor, Tensor]:
    o, logsumexp = torch.zeros(2, 3, 6, v.shape[-1], dtype=v.dtype), torch.full((2, 3, 6), -torch.inf, dtype=v.dtype)
    for rule, cut in zip(rules, cuts, strict=True):
        softmax.merge_(o, logsumexp, softmax.attend(q, k[:, :, cut], v[:, :, cut], rule))
    return o, logsumexp


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("M", [3, 4, 6])
@pytest.mark.parametrize("hidden", ["nothing", "by a bias", "causally"])
def test_two_parts_merged_are_the_whole_and_so_are_their_gradients(hidden: str, M: int) -> None:
    q, k, v = tensors(9, M)
    bias = torch.zeros(6, 9, dtype=torch.float64)
    if hidden == "causally":
        bias[:, 3:].masked_fill_(torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf)
    elif hidden == "by a bias":
        bias[2:, 4] = bias[0, 5:] = -torch.inf
    last = Rule(0.3, causal=True) if hidden == "causally" else Rule(0.3, bias=bias[:, 3:])
    rules, cuts = [Rule(0.3), last], [slice(0, 3), slice(3, 9)]
    whole = dense(q, k, v, bias)
    g = torch.randn_like(whole)
    want = torch.autograd.grad(whole, (q, k, v), g)

    with torch.no_grad():
        final = parts_of(q, k, v, rules, cuts)
        shares = [
            softmax.pull_back(g, (q, k[:, :, cut], v[:, :, cut]), final, rule) for rule, cut in zip(rules, cuts, strict=True)
        ]

    torch.testing.assert_close(final[0], whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(shares[0][0] + shares[1][0], want[0], rtol=0, atol=1e-12)
    for i in (1, 2):
        torch.testing.assert_close(torch.cat([share[i] for share in shares], 2), want[i], rtol=0, atol=1e-12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.floats(0.01, 400))
@settings(max_examples=40, deadline=None)
def test_any_number_of_parts_in_any_order_is_the_whole(sizes: list[int], size: float) -> None:
    S = sum(sizes)
    q, k, v = (x.detach() for x in tensors(S))
    q *= size
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    cuts = [slice(stop - length, stop) for stop, length in zip(ends, sizes, strict=True)]
    o, logsumexp = parts_of(q, k, v, [Rule(0.3)] * len(cuts), cuts[::-1])
    torch.testing.assert_close(o, dense(q, k, v, torch.zeros(6, S).double()), rtol=0, atol=1e-10)
    torch.testing.assert_close(logsumexp, (q @ k.mT * 0.3).logsumexp(-1), rtol=1e-12, atol=1e-10)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("turned", range(3), ids=["q", "k", "v"])
def test_a_last_dimension_need_not_be_dense(turned: int) -> None:
    inputs = [x.detach() for x in tensors(9, M=4)]
    g, final = torch.randn(2, 3, 6, 4, dtype=torch.float64), softmax.attend(*inputs, Rule(0.3))
    want = softmax.pull_back(g, inputs, final, Rule(0.3))
    inputs[turned] = inputs[turned].mT.contiguous().mT
    torch.testing.assert_close(softmax.attend(*inputs, Rule(0.3)), final, rtol=0, atol=1e-13)
    got = softmax.pull_back(g.mT.contiguous().mT, inputs, final, Rule(0.3))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("form")
def test_views_that_overlap_and_tensors_that_look_like_images_are_read_as_they_are() -> None:
    x = torch.randn(2, 9, 3, 4, dtype=torch.float64).transpose(1, 2)
    windows = x.contiguous().as_strided((2, 3, 6, 4), (108, 36, 4, 1), 8)
    want = softmax.attend(*(t.contiguous() for t in (x, windows, windows)), Rule(0.3))
    torch.testing.assert_close(softmax.attend(x, windows, windows, Rule(0.3)), want, rtol=0, atol=1e-13)
    # its second dimension is the dense one, which filling up would keep so
    q = torch.randn(3, 7, 2, dtype=torch.float64).mT.unsqueeze(2)
    assert q.stride(1) == 1
    k, v = (torch.randn(3, 2, 4, width, dtype=torch.float64) for width in (7, 9))
    o, _ = softmax.attend(q, k, v, Rule(0.3))
    torch.testing.assert_close(o, (q @ k.mT * 0.3).softmax(-1) @ v, rtol=0, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(L=st.integers(1, 200), widths=st.lists(st.integers(1, 9), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_every_side_is_solved_as_by_substitution_whatever_is_above_the_diagonal(L: int, widths: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(2, 3, L, L, generator=generator, dtype=torch.float64) / L**0.5
    sides = [torch.randn(2, 3, L, W, generator=generator, dtype=torch.float64) for W in widths]
    for b, x in zip(sides, triangular.solve(a, *sides), strict=True):
        want = torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)
        torch.testing.assert_close(x, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("L", [1, 5, 16, 18, 40, 64])
def test_the_gradient_of_a_solution_is_its_own(L: int) -> None:
    a, b, c = (torch.randn(2, L, W, dtype=torch.float64, requires_grad=True) for W in (L, 3, 2))
    torch.autograd.gradcheck(lambda a, b, c: triangular.solve(a / L, b, c), (a, b, c), fast_mode=True)


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("L", [64, 128])
def test_one_key_written_again_and_again_loses_no_digits(L: int, beta: float) -> None:
    a, b = torch.full((4, L, L), beta, dtype=torch.float64), torch.randn(4, L, 8, dtype=torch.float64)
    (want,) = triangular.solve(a, b)
    (x,) = triangular.solve(a.float(), b.float())
    torch.testing.assert_close(x.double(), want, rtol=0, atol=3e-6 * float(want.abs().max()))
