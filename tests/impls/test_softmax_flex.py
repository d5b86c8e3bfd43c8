"""FlexAttention computes softmax attention; that it compiles is tried in the slow tests, its masks in all."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import flex_attention

from attnbench import Problem, build
from attnbench.api import Attention, Cell, Workload
from attnbench.registry import load

blocks: Any = import_module("attnbench_impls.softmax.block_mask")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Callable[[Problem], Attention]:
    """Builds the method around FlexAttention's own eager form, which is dense and takes float64."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    return load("softmax.flex")


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2}, {"M": 5}, {"kv_heads": 1, "M": 5}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 63, 128, 257])
def test_it_is_softmax_attention_at_any_length(eager: Any, N: int, causal: bool, shape: dict[str, Any], inputs_of: Any) -> None:
    method = eager(Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": causal, "dtype": "float64", **shape}))
    inputs = [x.detach() for x in inputs_of(method)]
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 100, 300])
def test_hidden_keys_do_not_exist_and_who_sees_none_gives_zero(eager: Any, N: int, causal: bool, inputs_of: Any) -> None:
    method = eager(Problem(B=3, H=2, N=N, D=8, causal=causal, dtype="float64"))
    inputs = [x.detach() for x in inputs_of(method)]
    for _ in range(2):
        mask = torch.rand(3, N) > 0.3
        mask[0], mask[1, : N // 2], mask[2, :256] = False, False, True
        o = method(*inputs, key_mask=mask)
        torch.testing.assert_close(o, method.reference(*inputs, key_mask=mask), rtol=0, atol=1e-10)
        assert not o[0].any()


def test_the_future_changes_nothing_before_it(eager: Any, inputs_of: Any) -> None:
    method = eager(Problem(B=1, H=2, N=150, D=8, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 100:] = 3 - x[:, :, 100:]
    changed = method(q, k, v)
    assert torch.equal(changed[:, :, :100], o[:, :, :100])
    assert not torch.equal(changed[:, :, 100:], o[:, :, 100:])


def test_the_causal_block_mask_is_built_once_for_a_length(eager: Any) -> None:
    method = eager(Problem(B=1, H=1, N=300, D=8, causal=True))
    q = torch.zeros(1, 1, 300, 8)
    assert method._block_mask(q, None) is method._block_mask(q, None)
    assert method._block_mask(q[:, :, :200], None).shape == (1, 1, 200, 200)


@settings(max_examples=40, deadline=None)
@given(N=st.integers(1, 700), causal=st.booleans(), seed=st.integers(0, 999), share=st.sampled_from([None, 0.0, 0.99, 1.0]))
def test_blocks_are_those_of_the_dense_mask(N: int, causal: bool, seed: int, share: float | None) -> None:
    """Each visible pair is in exactly one list, and a block in the list of whole ones has no hidden pair."""
    keys = None
    if share is not None:
        keys = torch.rand(2, N, generator=torch.Generator().manual_seed(seed)) >= share
        keys[0, : N // 2] = True
    if keys is None and not causal:
        return
    mask = blocks.block_mask(N, torch.device("cpu"), causal=causal, key_mask=keys)
    dense = torch.ones(1, N, N, dtype=torch.bool) if keys is None else keys[:, None, :].expand(2, N, N)
    dense = dense.tril() if causal else dense
    partial, full = (
        pairs_of(*x, N) for x in ((mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices))
    )
    assert not (partial & full).any()
    assert ((partial | full) | ~dense).all()
    # rows beyond N, and keys beyond N, are no pairs
    assert (dense | ~full).all()


def pairs_of(number: torch.Tensor, which: torch.Tensor, N: int) -> torch.Tensor:
    """The listed blocks as bool [B, N, N]."""
    first = torch.arange(which.shape[-1]) < number.squeeze(1)[..., None]
    grid = torch.zeros(first.shape, dtype=torch.bool).scatter(-1, which.squeeze(1).long(), first)
    return grid.repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :N, :N]


@pytest.mark.parametrize(
    ("shape", "device", "workload", "words"),
    [
        ({}, "cpu", Workload.FORWARD, None),
        ({"dtype": "bfloat16", "D": 8, "padding": 0.5}, "cpu", Workload.FORWARD, None),
        ({}, "cpu", Workload.FORWARD_BACKWARD, "no backward on a CPU"),
        ({"dtype": "float64"}, "cpu", Workload.FORWARD, "float32, bfloat16 and float16"),
        ({}, "cuda", Workload.FORWARD_BACKWARD, None),
        ({"D": 8}, "cuda", Workload.FORWARD, "widths from 16: D=8"),
    ],
)
def test_its_limits_are_said_in_words(shape: dict[str, Any], device: str, workload: Workload, words: str | None) -> None:
    cell = Cell(method="softmax.flex", problem=Problem(N=64, **shape), device=device, workload=workload)
    said = load("softmax.flex").refusal(cell)
    assert said is None if words is None else words in (said or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ({"N": 200, "causal": True, "kv_heads": 2}, "float32"),
        ({"N": 63, "M": 8}, "bfloat16"),
        ({"N": 300, "causal": True, "padding": 0.7}, "float32"),
        ({"N": 300, "padding": 0.7}, "float16"),
    ],
    ids=str,
)
def test_compiled_it_is_the_same(shape: dict[str, Any], dtype: str) -> None:
    method = build("softmax.flex", Problem(**{"B": 2, "H": 4, "D": 16, "dtype": dtype, **shape}))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    masks: list[dict[str, Any]] = [{}]
    if method.problem.padding:
        masks = [{"key_mask": torch.rand(2, 300) > share} for share in (0.3, 0.9, 1.0)]
    for mask in masks:
        want = method.reference(*(x.double() for x in inputs), **mask).to(inputs[0].dtype)
        eps = 8 * torch.finfo(want.dtype).eps
        torch.testing.assert_close(method(*inputs, **mask), want, rtol=eps, atol=eps)


@pytest.mark.slow
def test_it_compiles_once_for_a_shape_whatever_the_mask_says() -> None:
    from torch._dynamo.utils import counters

    method = build("softmax.flex", Problem(B=2, H=1, N=150, D=16, padding=0.5))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    method(*inputs, key_mask=torch.rand(2, 150) > 0.5)
    before = counters["stats"]["unique_graphs"]
    for _ in range(3):
        method(*inputs, key_mask=torch.rand(2, 150) > 0.5)
    assert counters["stats"]["unique_graphs"] == before


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
def test_a_gpu_differentiates_it(causal: bool, evaluate: Any) -> None:
    method = load("softmax.flex")(Problem(B=2, H=4, kv_heads=2, N=300, D=64, causal=causal))
    inputs = [x.cuda().requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(0))]
    g = torch.randn_like(inputs[0])
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
