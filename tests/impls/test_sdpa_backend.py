"""`observe` names the kernel that really ran."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import UnsupportedError, build_for, load


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


@pytest.mark.parametrize(("name", "causal"), [("sparse.strided_masked", True), ("lsh.full", False), ("lsh.full", True)])
def test_other_methods_that_call_torch_s_kernels_say_which_one_ran(name: str, causal: bool, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=40, D=8, causal=causal))
    with method.observe() as facts:
        method(*inputs_of(method))
    assert facts == {"backend": "flash_cpu"}


def test_nothing_is_recorded_where_nothing_ran() -> None:
    with build("softmax.sdpa", Problem(N=40)).observe() as facts:
        pass
    assert facts == {}


@pytest.mark.parametrize(("name", "ran"), [("softmax.sdpa_math", "math"), ("softmax.sdpa_flash", "flash_cpu")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_a_forced_backend_is_the_one_that_runs(name: str, ran: str, dtype: str, inputs_of: Any) -> None:
    for shape in ({}, {"causal": True}, {"N": 1}, {"kv_heads": 1}, {"D": 300}, {"D": 7}):
        method = build(name, Problem(**{"B": 1, "H": 2, "N": 40, "D": 8, "dtype": dtype, **shape}))
        with method.observe() as facts:
            method(*inputs_of(method)).sum().backward()
        assert facts == {"backend": ran}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "ran"), [("softmax.sdpa_math", "math"), ("softmax.sdpa_flash", "flash_cpu")])
def test_a_mask_or_a_step_changes_no_forced_backend(name: str, ran: str, causal: bool, inputs_of: Any) -> None:
    method = build(name, Problem(B=2, H=2, N=40, D=8, causal=causal))
    q, k, v = inputs_of(method)
    with method.observe() as facts:
        method(q, k, v, key_mask=torch.rand(2, 40) > 0.5)
    assert facts == {"backend": ran}
    with torch.no_grad():
        _, state = method.prefill(q, k, v, capacity=41)
        with method.observe() as facts:
            method.step(q[:, :, :1], k[:, :, :1], v[:, :, :1], state=state)
    assert facts == {"backend": ran}


def test_forcing_ends_with_the_call(inputs_of: Any) -> None:
    forced, free = (build(name, Problem(B=1, H=2, N=40, D=8)) for name in ("softmax.sdpa_math", "softmax.sdpa"))
    forced(*inputs_of(forced))
    with free.observe() as facts:
        free(*inputs_of(free))
    assert facts == {"backend": "flash_cpu"}


@pytest.mark.filterwarnings("ignore:Flash attention")
@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("softmax.sdpa_flash", {"M": 4}, "M=4 must equal D=8"),
        ("softmax.sdpa_efficient", {}, "torch has no memory-efficient kernel on a CPU"),
        ("softmax.sdpa_cudnn", {"dtype": "bfloat16"}, "torch has no cuDNN kernel on a CPU"),
    ],
)
def test_what_a_cpu_lacks_is_refused_in_words_and_torch_agrees(
    name: str, shape: dict[str, Any], words: str, inputs_of: Any
) -> None:
    problem = Problem(**{"B": 1, "H": 2, "N": 40, "D": 8, **shape})
    cell = Cell(method=name, problem=problem)
    with pytest.raises(UnsupportedError, match=words):
        build_for(cell)
    method = load(name)(problem)
    with pytest.raises(RuntimeError, match=r"No (available kernel|viable backend)"):
        method(*inputs_of(method))


LIMITS: list[tuple[str, dict[str, Any], str | None]] = [
    ("math", {"dtype": "float64", "M": 5, "D": 7, "padding": 0.5, "kv_heads": 1}, None),
    ("flash", {}, None),
    ("flash", {"D": 256, "M": 256, "kv_heads": 1, "dtype": "float16"}, None),
    ("flash", {"dtype": "float32"}, "computes in float16 and bfloat16, not in float32"),
    ("flash", {"D": 257}, "widths up to 256: D=257"),
    ("flash", {"M": 32}, "M=32 must equal D=64"),
    ("flash", {"M": 128}, "M=128 must equal D=64"),
    ("flash", {"padding": 0.5}, "takes no mask"),
    ("efficient", {"dtype": "float32", "M": 32, "D": 512, "padding": 0.5}, None),
    ("efficient", {"dtype": "float32", "D": 12}, None),
    ("efficient", {"D": 12}, "multiples of 8: D=12, M=12"),
    ("efficient", {"dtype": "float32", "M": 6}, "multiples of 4: D=64, M=6"),
    ("efficient", {"dtype": "float64"}, "float32, bfloat16 and float16"),
    ("efficient", {"kv_heads": 1}, "kv_heads must equal H"),
    ("cudnn", {"M": 128}, None),
    ("cudnn", {"padding": 0.5}, None),
    ("cudnn", {"kv_heads": 1}, None),
    ("cudnn", {"D": 256}, None),
    ("cudnn", {"D": 12}, "multiples of 8: D=12, M=12"),
    ("cudnn", {"D": 264}, "widths up to 256"),
    ("cudnn", {"dtype": "float32"}, "not in float32"),
    ("cudnn", {"N": 1}, "no single key"),
]


@pytest.mark.parametrize(("backend", "shape", "words"), LIMITS, ids=str)
def test_the_limits_on_cuda_are_said_in_words(backend: str, shape: dict[str, Any], words: str | None) -> None:
    problem = Problem(**{"N": 256, "H": 2, "dtype": "bfloat16", **shape})
    said = load(f"softmax.sdpa_{backend}").why_not(Cell(method="x", problem=problem, device="cuda:1"))
    assert said is None if words is None else words in (said or "")


@pytest.mark.parametrize(
    ("shape", "workload", "words"),
    [
        ({"D": 192, "M": 128}, "forward_backward", None),
        ({"D": 256}, "forward_backward", None),
        ({"D": 192}, "forward_backward", "backward takes widths up to 128"),
        ({"causal": True}, "decode", None),
        ({"causal": True}, "decode_total", "the first step has one"),
    ],
)
def test_what_cudnn_takes_depends_on_the_workload(shape: dict[str, Any], workload: str, words: str | None) -> None:
    problem = Problem(**{"N": 256, "H": 2, "dtype": "bfloat16", **shape})
    said = load("softmax.sdpa_cudnn").refusal(Cell(method="x", problem=problem, device="cuda", workload=Workload(workload)))
    assert said is None if words is None else words in (said or "")


@pytest.mark.cuda
def test_a_gpu_runs_a_fused_kernel_in_bfloat16(inputs_of: Any) -> None:
    method = build("softmax.sdpa", Problem(B=1, H=2, N=256, D=64, dtype="bfloat16"))
    with method.observe() as facts:
        method(*(x.detach().cuda().requires_grad_() for x in inputs_of(method))).sum().backward()
    assert facts["backend"] in {"flash", "cudnn", "efficient"}


@pytest.mark.cuda
@pytest.mark.parametrize(("backend", "shape", "words"), LIMITS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_gpu_agrees_with_its_limits(backend: str, shape: dict[str, Any], words: str | None, inputs_of: Any) -> None:
    if backend == "cudnn" and shape == {"D": 256}:
        pytest.skip("some GPUs only")
    method = load(f"softmax.sdpa_{backend}")(Problem(**{"N": 256, "H": 2, "dtype": "bfloat16", **shape}))
    inputs = [x.detach().cuda() for x in inputs_of(method)]
    mask = torch.ones(1, method.problem.N, dtype=torch.bool, device="cuda") if method.problem.padding else None
    if words is None:
        with method.observe() as facts:
            method(*inputs, key_mask=mask)
        assert facts == {"backend": backend}
    else:
        with pytest.raises(RuntimeError):
            method(*inputs, key_mask=mask)
