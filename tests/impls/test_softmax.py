"""Softmax attention: addends, long prompts, what a step hands to torch, and the size of the state."""

from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build
from attnbench.workloads.decoding import cut

# by name: installed under another name than that of its folder
addend: Any = import_module("attnbench_impls.partial.backend").addend
visible: Any = import_module("attnbench_impls.softmax.masking").visible
cached: Any = import_module("attnbench_impls.softmax.cached")
N = 40


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


def built(name: str, **shape: Any) -> tuple[Any, tuple[Tensor, ...]]:
    method = build(name, Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": True, "dtype": "float64", **shape}))
    return method, type(method).inputs(method.problem, torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa_math"])
@pytest.mark.parametrize("rows", [1, 7, 40, 64])
def test_a_long_prompt_is_attended_in_parts(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method, inputs = built(name, kv_heads=2)
    monkeypatch.setattr(cached, "_PROMPT_ROWS", rows)
    o, _ = method.prefill(*inputs, capacity=N)
    torch.testing.assert_close(o, method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash"])
def test_a_step_hands_torch_neither_a_mask_nor_the_causal_flag(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag is aligned to the first key, and a mask would cost."""
    method, inputs = built(name)
    _, state = method.prefill(*cut(inputs, 20), capacity=N)
    seen: dict[str, Any] = {}
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *x, **given: (seen.update(given), real(*x, **given))[1]
    )
    method.step(*cut(inputs, 21, start=20), state=state)
    assert not seen["is_causal"]
    assert seen.get("attn_mask") is None


@pytest.mark.parametrize(("name", "width"), [("softmax.naive", 2 * 13), ("softmax.recompute", 4 * 8 + 2 * 13)])
def test_the_state_is_the_cache_and_without_one_the_tokens(name: str, width: int) -> None:
    method, inputs = built(name, kv_heads=2, M=5)
    _, state = method.prefill(*cut(inputs, 3), capacity=N)
    assert method.state_bytes(state) == 2 * N * width * 8
