"""`observe` names the kernel that really ran."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build
from attnbench.api import Cell
from attnbench.registry import UnsupportedError, build_for, load
from tests.impls.contract.families.softmax import METHODS

CASES: list[tuple[str, dict[str, Any], str]] = [
    *(("softmax.sdpa", shape, "flash_cpu") for shape in ({}, {"causal": True}, {"N": 1}, {"kv_heads": 1})),
    *(
        (f"softmax.sdpa_{name}", shape, ran)
        for name, ran in (("math", "math"), ("flash", "flash_cpu"))
        for shape in ({}, {"causal": True}, {"N": 1}, {"kv_heads": 1}, {"D": 300}, {"D": 7})
    ),
    ("softmax.sdpa", {"M": 4}, "math"),
    ("sparse.strided_masked", {"causal": True}, "flash_cpu"),
    *(("lsh.full", {"causal": causal}, "flash_cpu") for causal in (False, True)),
]


def built(name: str, **shape: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """A method, and inputs that ask for gradients."""
    method = build(name, Problem(**{"B": 1, "H": 2, "N": 40, "D": 8, **shape}))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    for x in inputs:
        x.requires_grad_()
    return method, inputs


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "shape", "ran"), CASES, ids=str)
def test_the_kernel_that_ran_on_a_cpu_is_named(name: str, shape: dict[str, Any], ran: str, dtype: str) -> None:
    """Forced or chosen by torch, which falls back to its plain form where values have a width of their own."""
    method, inputs = built(name, dtype=dtype, **shape)
    with method.observe() as facts:
        method(*inputs).sum().backward()
    assert facts == {"backend": ran}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("forced", [False, True])
def test_it_is_seen_without_gradients_too(forced: bool, mode: Any) -> None:
    method, inputs = built("softmax.sdpa")
    with sdpa_kernel(SDPBackend.MATH) if forced else nullcontext(), method.observe() as facts, mode():
        method(*inputs)
    assert facts == {"backend": "math" if forced else "flash_cpu"}


def test_nothing_is_recorded_where_nothing_ran() -> None:
    with build("softmax.sdpa", Problem(N=40)).observe() as facts:
        pass
    assert facts == {}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "ran"), [("softmax.sdpa_math", "math"), ("softmax.sdpa_flash", "flash_cpu")])
def test_a_mask_or_a_step_changes_no_forced_backend(name: str, ran: str, causal: bool) -> None:
    method, (q, k, v) = built(name, B=2, causal=causal)
    with method.observe() as facts:
        method(q, k, v, key_mask=torch.rand(2, 40) > 0.5)
    assert facts == {"backend": ran}
    with torch.no_grad():
        _, state = method.prefill(q, k, v, capacity=41)
        with method.observe() as facts:
            method.step(q[:, :, :1], k[:, :, :1], v[:, :, :1], state=state)
    assert facts == {"backend": ran}


def test_forcing_ends_with_the_call() -> None:
    forced, inputs = built("softmax.sdpa_math")
    forced(*inputs)
    free, inputs = built("softmax.sdpa")
    with free.observe() as facts:
        free(*inputs)
    assert facts == {"backend": "flash_cpu"}


@pytest.mark.filterwarnings("ignore:Flash attention")
@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("softmax.sdpa_flash", {"M": 4}, "M=4 must equal D=8"),
        ("softmax.sdpa_efficient", {}, "it runs on CUDA devices"),
        ("softmax.sdpa_cudnn", {"dtype": "bfloat16"}, "it runs on CUDA devices"),
    ],
)
def test_what_a_cpu_lacks_is_refused_in_words_and_torch_agrees(name: str, shape: dict[str, Any], words: str) -> None:
    method, inputs = load(name), built("softmax.naive", **shape)[1]
    problem = Problem(**{"B": 1, "H": 2, "N": 40, "D": 8, **shape})
    with pytest.raises(UnsupportedError, match=words):
        build_for(Cell(method=name, problem=problem))
    with pytest.raises(RuntimeError, match=r"No (available kernel|viable backend)"):
        method(problem)(*inputs)


@pytest.mark.cuda
def test_a_gpu_runs_a_fused_kernel_in_bfloat16() -> None:
    method, inputs = built("softmax.sdpa", N=256, D=64, dtype="bfloat16")
    with method.observe() as facts:
        method(*(x.detach().cuda().requires_grad_() for x in inputs)).sum().backward()
    assert facts["backend"] in {"flash", "cudnn", "efficient"}


LIMITS = [
    (backend, shape, words)
    for backend in ("math", "flash", "efficient", "cudnn")
    for asked, words in METHODS[f"softmax.sdpa_{backend}"].limits
    for shape in [{key: value for key, value in asked.items() if key != "device"}]
    # of a forward, and what every kind of GPU does alike
    if "workload" not in shape and (backend, shape.get("D")) != ("cudnn", 256)
]


@pytest.mark.cuda
@pytest.mark.parametrize(("backend", "shape", "words"), LIMITS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_gpu_agrees_with_its_limits(backend: str, shape: dict[str, Any], words: str | None) -> None:
    problem = Problem(**{"N": 256, **shape})
    method: Any = load(f"softmax.sdpa_{backend}")(problem)
    inputs = [x.cuda() for x in type(method).inputs(problem, torch.Generator().manual_seed(7))]
    mask = torch.ones(1, problem.N, dtype=torch.bool, device="cuda") if problem.padding else None
    if words is None:
        with method.observe() as facts:
            method(*inputs, key_mask=mask)
        assert facts == {"backend": backend}
    else:
        with pytest.raises(RuntimeError):
            method(*inputs, key_mask=mask)
