"""Hidden keys do not exist, in the output and in every gradient; a query that sees no key gives 0."""

from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build
from attnbench.api import Attention, Cell, padding_mask
from attnbench.registry import load

# by name: installed under another name than that of its folder
addend: Any = import_module("attnbench_impls.partial.backend").addend
visible: Any = import_module("attnbench_impls.softmax.masking").visible
MASKED = ["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash", "softmax.recompute"]
small = st.integers(1, 3)


def evaluated(method: Attention, function: Any, key_mask: Tensor) -> list[Tensor]:
    p = method.problem
    inputs = [x.requires_grad_() for x in type(method).inputs(p, torch.Generator().manual_seed(0))]
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    o = function(*inputs, key_mask=key_mask)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


@pytest.mark.parametrize("name", MASKED)
@settings(max_examples=25, deadline=None)
@given(sizes=st.tuples(small, small, small), N=st.integers(1, 40), causal=st.booleans(), share=st.floats(0, 1))
def test_a_masked_call_is_its_definition(name: str, sizes: tuple[int, int, int], N: int, causal: bool, share: float) -> None:
    B, kv_heads, R = sizes
    method: Any = build(name, Problem(B=B, H=kv_heads * R, kv_heads=kv_heads, N=N, D=4, causal=causal, dtype="float64"))
    mask = torch.rand(B, N, generator=torch.Generator().manual_seed(N)) >= share
    got, want = (evaluated(method, function, mask) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_the_reference_with_padding_is_each_sequence_by_itself(name: str, causal: bool) -> None:
    problem = Problem(B=3, H=2, N=30, D=4, causal=causal, padding=0.6, dtype="float64")
    method: Any = build(name, problem)
    mask = padding_mask(problem, "cpu")
    assert mask is not None
    assert tuple(mask.sum(1).tolist()) == problem.lengths
    q, k, v = type(method).inputs(problem, torch.Generator().manual_seed(0))
    o, r = method(q, k, v, key_mask=mask), method.reference(q, k, v, key_mask=mask)
    for b, n in enumerate(problem.lengths):
        alone = method.reference(*(x[b : b + 1, :, :n] for x in (q, k, v)))
        torch.testing.assert_close(r[b : b + 1, :, :n], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(o[b : b + 1, :, :n], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_who_sees_nothing_gives_zero_and_moves_nothing(name: str, causal: bool) -> None:
    method = build(name, Problem(B=2, H=2, N=20, D=4, causal=causal, dtype="float64"))
    mask = torch.ones(2, 20, dtype=torch.bool)
    mask[0], mask[1, :5] = False, False
    for function in (method, method.reference):
        o, dq, dk, dv = evaluated(method, function, mask)
        assert not o[0].any()
        assert not any(x[0].any() for x in (dq, dk, dv))
        assert not any(x[1, :, :5].any() for x in (dk, dv))
        blind = o[1, :, :5]
        assert blind.any().item() is not causal
        assert all(x.isfinite().all() for x in (o, dq, dk, dv))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_that_hides_nothing_is_no_mask(name: str, dtype: str) -> None:
    for causal in (False, True):
        method = build(name, Problem(B=2, H=2, N=33, D=8, causal=causal, dtype=dtype))
        inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
        eps = 4 * torch.finfo(inputs[0].dtype).eps
        bare, masked = method(*inputs), method(*inputs, key_mask=torch.ones(2, 33, dtype=torch.bool))
        torch.testing.assert_close(masked, bare, rtol=eps, atol=eps)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", MASKED)
def test_hidden_values_cannot_be_seen_in_any_bit(name: str, dtype: str) -> None:
    for causal in (False, True):
        method = build(name, Problem(B=2, H=2, N=33, D=8, causal=causal, padding=0.5, dtype=dtype))
        mask = padding_mask(method.problem, "cpu")
        assert mask is not None
        q, k, v = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
        o = method(q, k, v, key_mask=mask)
        hidden = ~mask[:, None, :, None]
        moved = method(q, k.masked_fill(hidden, 30), v.masked_fill(hidden, 1000), key_mask=mask)
        assert torch.equal(moved, o)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_a_mask_hides_the_same_as_an_addend(backend: SDPBackend, dtype: str) -> None:
    method: Any = build("softmax.sdpa", Problem(B=2, H=2, N=20, D=8, causal=True, dtype=dtype))
    q, k, v = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    mask = torch.rand(2, 20, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[0, :3] = False
    seen = visible(mask, 20, 20, causal=True, device=q.device)
    with sdpa_kernel(backend):
        got = F.scaled_dot_product_attention(q, k, v, attn_mask=addend(seen, q.dtype))
        want = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    assert torch.equal(got, want)
    assert not got[0, :, :3].any()


def test_padding_is_refused_where_there_is_no_mask_to_take() -> None:
    padded = Problem(N=64, padding=0.5, dtype="bfloat16")
    words = {
        name: load(name).refusal(Cell(method=name, problem=padded, device="cuda"))
        for name in ("softmax.sdpa_flash", "softmax.flash_attn", "softmax.xformers", "softmax.sdpa", "softmax.sdpa_cudnn")
    }
    assert words == {
        "softmax.sdpa_flash": "on CUDA flash takes no mask, so there can be no padding",
        "softmax.flash_attn": "it takes no key mask, so there can be no padding",
        "softmax.xformers": "it takes no key mask, so there can be no padding",
        "softmax.sdpa": None,
        "softmax.sdpa_cudnn": None,
    }


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_efficient", "softmax.sdpa_cudnn"])
@pytest.mark.parametrize("N", [64, 100])
def test_a_gpu_masks_the_same(N: int, name: str, causal: bool) -> None:
    method: Any = load(name)(Problem(B=2, H=2, N=N, D=64, causal=causal, dtype="bfloat16"))
    drawn = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    inputs = [x.cuda().requires_grad_() for x in drawn]
    wide = [x.detach().float().requires_grad_() for x in inputs]
    mask = torch.rand(2, N, device="cuda") > 0.5
    mask[0, :3] = False
    got, want = method(*inputs, key_mask=mask), method.reference(*wide, key_mask=mask)
    torch.testing.assert_close(got.float(), want, rtol=0.02, atol=0.02)
    gradients = torch.autograd.grad(got.sum(), inputs)
    for gradient, exact in zip(gradients, torch.autograd.grad(want.sum(), wide), strict=True):
        torch.testing.assert_close(gradient.float(), exact, rtol=0.05, atol=0.05)
