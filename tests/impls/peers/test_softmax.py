"""What other people's packages are called with, by small stand-ins that compute softmax attention densely."""

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import MissingPackageError, load
from tests.impls.contract.subjects import cost_of
from tests.impls.peers.stand_ins import Calls, install

FLASH, XFORMERS = "softmax.flash_attn", "softmax.xformers"


def dense_BNHD(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Softmax attention of [B, N, H, D], heads of k and v shared by neighbours, written apart from the project's own."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], dim=2) for x in (k, v))
    scores_BHNN = torch.einsum("bnhd,bmhd->bhnm", q, k) * scale
    if causal:
        scores_BHNN = scores_BHNN + torch.full_like(scores_BHNN, float("-inf")).triu(1)
    return torch.einsum("bhnm,bmhd->bnhd", scores_BHNN.softmax(-1), v).contiguous()


class LowerTriangularMask:
    """What xformers calls its causal mask."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Puts both stand-ins in place, and records each call."""
    seen: Calls = []

    def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, *, softmax_scale: float, causal: bool) -> Tensor:
        seen.append({"tensors": (q, k, v), "scale": softmax_scale, "causal": causal})
        return dense_BNHD(q, k, v, softmax_scale, causal)

    def memory_efficient_attention(q: Tensor, k: Tensor, v: Tensor, *, attn_bias: Any, scale: float) -> Tensor:
        assert attn_bias is None or isinstance(attn_bias, LowerTriangularMask)
        seen.append({"tensors": (q, k, v), "scale": scale, "causal": attn_bias is not None})
        return dense_BNHD(q, k, v, scale, attn_bias is not None)

    install(monkeypatch, "flash_attn", flash_attn_func=flash_attn_func)
    mask, attend = LowerTriangularMask, memory_efficient_attention
    install(monkeypatch, "xformers.ops", memory_efficient_attention=attend, LowerTriangularMask=mask)
    return seen


@pytest.mark.parametrize(
    ("name", "shape"), [(FLASH, {}), (FLASH, {"kv_heads": 2}), (XFORMERS, {}), (XFORMERS, {"M": 5})], ids=str
)
@pytest.mark.parametrize("causal", [False, True])
def test_the_package_is_called_so_that_softmax_attention_comes_out(
    name: str, shape: dict[str, Any], causal: bool, calls: Calls, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = load(name)(Problem(**{"B": 2, "H": 4, "N": 33, "D": 9, "causal": causal, "dtype": "float64", **shape}))
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    (call,) = calls
    assert call["causal"] is causal
    assert call["scale"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", [FLASH, XFORMERS])
def test_nothing_is_copied_on_the_way_in_or_out(name: str, calls: Calls, inputs_of: Any) -> None:
    method = load(name)(Problem(B=2, H=4, N=33, D=8))
    inputs = inputs_of(method)
    o = method(*inputs)
    for given, x in zip(inputs, calls[0]["tensors"], strict=True):
        assert x.shape == (2, 33, 4, 8)
        assert x.is_contiguous()
        assert x.data_ptr() == given.data_ptr()
    assert o.shape == (2, 4, 33, 8)
    assert o.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize(("name", "line"), [(FLASH, "flash-attn>="), (XFORMERS, "xformers>=")])
def test_without_the_package_there_is_a_cost_a_limit_and_a_pip_line(name: str, line: str) -> None:
    method, problem = load(name), Problem(N=64, dtype="bfloat16")
    assert method.requires[0].startswith(line)
    assert cost_of(name, problem, Workload.FORWARD_BACKWARD).executed_flops > 0
    assert method.refusal(Cell(method=name, problem=problem, device="cuda")) is None
    assert not {"flash_attn", "xformers"} & set(sys.modules)
    with pytest.raises(MissingPackageError, match=line):
        build(name, problem)
