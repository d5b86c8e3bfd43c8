"""`observe` names the kernel that really ran."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [{}, {"causal": True}, {"N": 1}, {"kv_heads": 1}])
def test_a_cpu_runs_its_own_flash(dtype: str, shape: dict[str, Any], inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(**{"B": 1, "H": 2, "N": 40, "D": 8, "dtype": dtype, **shape}))
    with method.observe() as facts:
        method(*inputs_of(method)).sum().backward()
    assert facts == {"backend": "flash_cpu"}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_is_seen_without_gradients_too(mode: Any, inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(B=1, H=2, N=40, D=8))
    inputs = inputs_of(method)
    with method.observe() as facts, mode():
        method(*inputs)
    assert facts == {"backend": "flash_cpu"}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_forced_math_is_recorded_as_math(mode: Any, inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(B=1, H=2, N=40, D=8))
    inputs = inputs_of(method)
    with sdpa_kernel(SDPBackend.MATH), method.observe() as facts, mode():
        method(*inputs)
    assert facts == {"backend": "math"}


def test_other_value_widths_fall_back_to_math_on_a_cpu(inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(B=1, H=2, N=40, D=8, M=4))
    with method.observe() as facts:
        method(*inputs_of(method)).sum().backward()
    assert facts == {"backend": "math"}


def test_nothing_is_recorded_where_nothing_ran() -> None:
    with build("softmax.sdpa", Problem(N=40)).observe() as facts:
        pass
    assert facts == {}


@pytest.mark.cuda
def test_a_gpu_runs_a_fused_kernel_in_bfloat16(inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(B=1, H=2, N=256, D=64, dtype="bfloat16"))
    with method.observe() as facts:
        method(*(x.detach().cuda().requires_grad_() for x in inputs_of(method))).sum().backward()
    assert facts["backend"] in {"flash", "cudnn", "efficient"}
