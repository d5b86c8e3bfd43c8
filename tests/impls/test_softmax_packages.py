"""What other people's packages are called with, by small stand-ins that compute softmax attention densely."""

import sys
import types
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import MissingPackageError, load

FLASH, XFORMERS = "softmax.flash_attn", "softmax.xformers"
Calls = list[dict[str, Any]]


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

    modules: dict[str, dict[str, Any]] = {
        "flash_attn": {"flash_attn_func": flash_attn_func},
        "xformers": {},
        "xformers.ops": {
            "memory_efficient_attention": memory_efficient_attention,
            "LowerTriangularMask": LowerTriangularMask,
        },
    }
    for name, members in modules.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (FLASH, {}),
        (FLASH, {"kv_heads": 2}),
        (XFORMERS, {}),
        (XFORMERS, {"M": 5}),
    ],
    ids=str,
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
    assert method.cost(problem, {}, Workload.FORWARD_BACKWARD).executed_flops > 0
    assert method.refusal(Cell(method=name, problem=problem, device="cuda")) is None
    assert not {"flash_attn", "xformers"} & set(sys.modules)
    with pytest.raises(MissingPackageError, match=line):
        build(name, problem)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (FLASH, {"dtype": "float32"}, "float16 and bfloat16, not in float32"),
        (FLASH, {"M": 32}, "M=32 must equal D=64"),
        (FLASH, {"D": 264}, "widths up to 256: D=264"),
        (FLASH, {"kv_heads": 1, "D": 12, "causal": True}, None),
        (XFORMERS, {"dtype": "float64"}, "float32, bfloat16 and float16"),
        (XFORMERS, {"kv_heads": 1}, "kv_heads must equal H"),
        (XFORMERS, {"D": 12}, "multiples of 8: D=12"),
        (XFORMERS, {"D": 12, "dtype": "float32", "M": 8, "causal": True}, None),
    ],
)
def test_its_limits_are_said_in_words(name: str, shape: dict[str, Any], words: str | None) -> None:
    problem = Problem(**{"N": 64, "dtype": "float16", **shape})
    said = load(name).refusal(Cell(method=name, problem=problem, device="cuda"))
    assert said is None if words is None else words in (said or "")
    assert "on CUDA only" in (load(name).refusal(Cell(method=name, problem=problem)) or "")


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", [FLASH, XFORMERS])
def test_the_real_package_agrees_with_the_reference(name: str, causal: bool, evaluate: Any) -> None:
    pytest.importorskip("flash_attn" if name == FLASH else "xformers")
    method = load(name)(Problem(B=2, H=4, N=257, D=64, causal=causal, dtype="bfloat16"))
    inputs = [x.cuda().requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(0))]
    wide = [x.detach().float().requires_grad_() for x in inputs]
    g = torch.randn_like(inputs[0])
    got, want = evaluate(method, "forward", inputs, g), evaluate(method, "reference", wide, g.float())
    for o, r in zip(got, want, strict=True):
        torch.testing.assert_close(o.float(), r, rtol=0.03, atol=0.03)
