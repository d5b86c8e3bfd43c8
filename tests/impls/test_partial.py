"""Softmax over parts of the keys, merged, is softmax over all of them; by the fused kernel and in plain torch alike."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

softmax: Any = import_module("attnbench_impls.partial.softmax")
Rule = softmax.Rule


@pytest.fixture(params=["fused", "plain"])
def form(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(softmax, "is_fused", lambda _: False)
    return str(request.param)


def tensors(S: int, M: int = 6, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = [(2, 3, 5, 4), (2, 3, S, 4), (2, 3, S, M)]
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def dense(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (q @ k.mT * 0.3 + bias).softmax(-1) @ v


def parts_of(q: Tensor, k: Tensor, v: Tensor, rules: list[Any], cuts: list[slice]) -> tuple[Tensor, Tensor]:
    o, logsumexp = (
        torch.zeros(2, 3, q.shape[2], v.shape[-1], dtype=v.dtype),
        torch.full((2, 3, q.shape[2]), -torch.inf).double(),
    )
    for rule, cut in zip(rules, cuts, strict=True):
        softmax.merge_(o, logsumexp, softmax.attend(q, k[:, :, cut], v[:, :, cut], rule))
    return o, logsumexp


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("M", [3, 4, 6])
@pytest.mark.parametrize("hidden", ["nothing", "by a bias", "causally"])
def test_two_parts_merged_are_the_whole_and_so_are_their_gradients(hidden: str, M: int) -> None:
    q, k, v = tensors(12, M)
    bias = torch.zeros(5, 12, dtype=torch.float64)
    if hidden == "causally":
        bias[:, 7:].masked_fill_(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    elif hidden == "by a bias":
        bias[2:, 8] = bias[0, 9:] = -torch.inf
    last = Rule(0.3, causal=True) if hidden == "causally" else Rule(0.3, bias=bias[:, 7:])
    rules, cuts = [Rule(0.3), last], [slice(0, 7), slice(7, 12)]
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
    torch.testing.assert_close(o, dense(q, k, v, torch.zeros(5, S).double()), rtol=0, atol=1e-10)
    torch.testing.assert_close(logsumexp, (q @ k.mT * 0.3).logsumexp(-1), rtol=1e-12, atol=1e-10)


@pytest.mark.usefixtures("form")
def test_views_of_any_strides_are_read_as_they_are() -> None:
    x = torch.randn(2, 9, 3, 4, dtype=torch.float64).transpose(1, 2)
    windows = x.contiguous().as_strided((2, 3, 6, 4), (108, 36, 4, 1), 8)
    o, logsumexp = softmax.attend(x, windows, windows, Rule(0.3))
    want = softmax.attend(*(t.contiguous() for t in (x, windows, windows)), Rule(0.3))
    torch.testing.assert_close((o, logsumexp), want, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("turned", range(3), ids=["q", "k", "v"])
def test_a_last_dimension_need_not_be_dense(turned: int) -> None:
    inputs = [x.detach() for x in tensors(9, M=4)]
    g, final = torch.randn(2, 3, 5, 4, dtype=torch.float64), softmax.attend(*inputs, Rule(0.3))
    want = softmax.pull_back(g, inputs, final, Rule(0.3))
    inputs[turned] = inputs[turned].mT.contiguous().mT
    torch.testing.assert_close(softmax.attend(*inputs, Rule(0.3)), final, rtol=0, atol=1e-13)
    got = softmax.pull_back(g.mT.contiguous().mT, inputs, final, Rule(0.3))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("form")
def test_a_tensor_that_looks_like_an_image_is_filled_up_all_the_same() -> None:
    # its second dimension is the dense one, which filling up would keep so
    q = torch.randn(3, 7, 2, dtype=torch.float64).mT.unsqueeze(2)
    k, v = (torch.randn(3, 2, 4, width, dtype=torch.float64) for width in (7, 9))
    assert q.stride(1) == 1
    o, _ = softmax.attend(q, k, v, Rule(0.3))
    torch.testing.assert_close(o, (q @ k.mT * 0.3).softmax(-1) @ v, rtol=0, atol=1e-13)
