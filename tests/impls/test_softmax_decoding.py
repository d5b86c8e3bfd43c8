"""Token by token is the same as all at once."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload, tensors_of
from attnbench.registry import load

cached: Any = import_module("attnbench_impls.softmax.cached")
DECODING = ["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash", "softmax.recompute"]
N = 40


def built(name: str, **shape: Any) -> tuple[Any, tuple[Tensor, ...]]:
    method = build(name, Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": True, "dtype": "float64", **shape}))
    return method, type(method).inputs(method.problem, torch.Generator().manual_seed(3))


def cut(inputs: tuple[Tensor, ...], start: int, stop: int) -> tuple[Tensor, ...]:
    return tuple(x[:, :, start:stop] for x in inputs)


def decoded(method: Any, inputs: tuple[Tensor, ...], n: int) -> Tensor:
    """All outputs, the first n by `prefill`."""
    o, state = method.prefill(*cut(inputs, 0, n), capacity=N)
    outputs = [o]
    for t in range(n, N):
        o, state = method.step(*cut(inputs, t, t + 1), state=state)
        outputs.append(o)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("n", [0, 1, 17, N])
@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2}, {"kv_heads": 1}, {"B": 1, "H": 1}], ids=str)
@pytest.mark.parametrize("name", DECODING)
def test_decoding_after_a_prompt_is_the_parallel_form(name: str, shape: dict[str, Any], n: int) -> None:
    method, inputs = built(name, **shape)
    torch.testing.assert_close(decoded(method, inputs, n), method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.recompute"])
def test_values_may_have_another_width(name: str) -> None:
    method, inputs = built(name, M=5, kv_heads=2)
    torch.testing.assert_close(decoded(method, inputs, 9), method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa_math"])
@pytest.mark.parametrize("rows", [1, 7, 40, 64])
def test_a_long_prompt_is_attended_in_parts(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method, inputs = built(name, kv_heads=2)
    monkeypatch.setattr(cached, "_PROMPT_ROWS", rows)
    o, _ = method.prefill(*inputs, capacity=N)
    torch.testing.assert_close(o, method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", DECODING)
def test_a_step_costs_no_accuracy_in_any_dtype(name: str, dtype: str) -> None:
    method, inputs = built(name, dtype=dtype)
    exact = method.reference(*(x.double() for x in inputs))
    eager, got = method.reference(*inputs), decoded(method, inputs, 0)
    assert got.dtype is inputs[0].dtype
    slack = 4 * torch.finfo(got.dtype).eps
    assert (got - exact).abs().max() <= 2 * (eager - exact).abs().max() + slack


@pytest.mark.parametrize("name", DECODING)
def test_the_same_step_twice_gives_the_same(name: str) -> None:
    method, inputs = built(name)
    _, state = method.prefill(*cut(inputs, 0, 20), capacity=N)
    once, after = method.step(*cut(inputs, 20, 21), state=state)
    twice, again = method.step(*cut(inputs, 20, 21), state=state)
    assert torch.equal(once, twice)
    assert (state.length, after.length, again.length) == (20, 21, 21)


@pytest.mark.parametrize("name", DECODING)
def test_a_step_copies_no_cache(name: str) -> None:
    method, inputs = built(name)
    _, state = method.prefill(*cut(inputs, 0, 20), capacity=N)
    _, after = method.step(*cut(inputs, 20, 21), state=state)
    assert [t.data_ptr() for t in tensors_of(after)] == [t.data_ptr() for t in tensors_of(state)]


@pytest.mark.parametrize("name", ["softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash"])
def test_a_step_hands_torch_neither_a_mask_nor_the_causal_flag(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag is aligned to the first key, and a mask would cost."""
    method, inputs = built(name)
    _, state = method.prefill(*cut(inputs, 0, 20), capacity=N)
    seen: dict[str, Any] = {}
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *x, **given: (seen.update(given), real(*x, **given))[1]
    )
    method.step(*cut(inputs, 20, 21), state=state)
    assert not seen["is_causal"]
    assert seen.get("attn_mask") is None


@pytest.mark.parametrize("name", DECODING)
def test_the_prompt_is_copied_not_kept(name: str) -> None:
    method, inputs = built(name)
    want = method(*inputs)[:, :, 20:21]
    prompt = tuple(x.clone() for x in cut(inputs, 0, 20))
    _, state = method.prefill(*prompt, capacity=N)
    for x in prompt:
        x.zero_()
    o, _ = method.step(*cut(inputs, 20, 21), state=state)
    torch.testing.assert_close(o, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", DECODING)
def test_a_token_beyond_the_capacity_is_refused(name: str) -> None:
    method, inputs = built(name)
    _, full = method.prefill(*cut(inputs, 0, 5), capacity=5)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.step(*cut(inputs, 5, 6), state=full)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.prefill(*cut(inputs, 0, 6), capacity=5)


@pytest.mark.parametrize("name", DECODING)
def test_no_prompt_gives_no_output_and_an_empty_state(name: str) -> None:
    method, inputs = built(name, M=8)
    o, state = method.prefill(*cut(inputs, 0, 0), capacity=N)
    assert o.shape == (2, 4, 0, 8)
    assert state.length == 0


@pytest.mark.parametrize(("name", "width"), [("softmax.naive", 2 * 13), ("softmax.recompute", 4 * 8 + 2 * 13)])
def test_the_state_is_the_cache_and_without_one_the_tokens(name: str, width: int) -> None:
    method, inputs = built(name, kv_heads=2, M=5)
    _, state = method.prefill(*cut(inputs, 0, 3), capacity=N)
    assert method.state_bytes(state) == 2 * N * width * 8


@pytest.mark.parametrize("name", ["softmax.flex", "softmax.flash_attn", "softmax.xformers"])
def test_who_does_not_decode_says_so(name: str) -> None:
    cell = Cell(method=name, problem=Problem(N=8, causal=True), workload=Workload.DECODE)
    assert load(name).refusal(cell) == "it does not decode token by token"


@pytest.mark.cuda
@pytest.mark.parametrize("backend", ["", "_math", "_flash", "_efficient", "_cudnn"])
def test_a_gpu_decodes_the_same(backend: str) -> None:
    method = load(f"softmax.sdpa{backend}")(Problem(B=2, H=4, N=N, D=64, causal=True, dtype="bfloat16"))
    inputs = tuple(x.cuda() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(3)))
    torch.testing.assert_close(decoded(method, inputs, 9), method.reference(*inputs), rtol=0.03, atol=0.03)
