"""Softmax attention: addends, long prompts, the size of the state, and the kernel of torch that really ran, by `observe`."""

from contextlib import nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench import Problem, build
from attnbench.api import Cell
from attnbench.registry import UnsupportedError, build_for, load
from attnbench.workloads.decoding import cut
from tests.impls.contract.calls import inputs_of
from tests.impls.contract.families.softmax import METHODS

# by name: installed under another name than that of its folder
addend: Any = import_module("attnbench_impls.partial.backend").addend
visible: Any = import_module("attnbench_impls.softmax.masking").visible
cached: Any = import_module("attnbench_impls.softmax.cached")


def built(name: str, **shape: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """A method, and inputs that ask for gradients."""
    method = build(name, Problem(**{"B": 2, "H": 4, "N": 40, "D": 8, **shape}))
    return method, inputs_of(method)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_a_mask_hides_the_same_as_an_addend(backend: SDPBackend, dtype: str) -> None:
    _, (q, k, v) = built("softmax.sdpa", N=20, causal=True, dtype=dtype)
    mask = torch.rand(2, 20, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[0, :3] = False
    seen = visible(mask, 20, 20, causal=True, device=q.device)
    with sdpa_kernel(backend):
        got = F.scaled_dot_product_attention(q, k, v, attn_mask=addend(seen, q.dtype))
        want = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    assert torch.equal(got, want)
    assert not got[0, :, :3].any()


@torch.no_grad()
def test_forgetting_is_not_rounded_at_each_token_by_the_method_nor_by_what_fidelity_holds_it_against() -> None:
    method, inputs = built("softmax.fox", N=200, causal=True, dtype="bfloat16")
    right = method.reference(*(x.double() for x in inputs))
    for o in (method(*inputs), method.exact(*inputs)):
        assert torch.linalg.vector_norm(o - right) <= 4e-3 * torch.linalg.vector_norm(right)


def test_gates_long_before_a_query_gather_no_rounding_in_their_gradients() -> None:
    method, inputs = built("softmax.fox", B=1, N=1024, D=64, causal=True)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    (got,) = torch.autograd.grad(method(*inputs)[:, :, -1].sum(), inputs[3])
    (want,) = torch.autograd.grad(method.reference(*exact)[:, :, -1].sum(), exact[3])
    assert (got - want).norm() <= 2e-6 * want.norm()


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa_math"])
@pytest.mark.parametrize("rows", [1, 7, 40, 64])
def test_a_long_prompt_is_attended_in_parts(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method, inputs = built(name, kv_heads=2, causal=True, dtype="float64")
    monkeypatch.setattr(cached, "_PROMPT_ROWS", rows)
    o, _ = method.prefill(*inputs, capacity=40)
    torch.testing.assert_close(o, method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash"])
def test_a_step_hands_torch_neither_a_mask_nor_the_causal_flag(name: str) -> None:
    """The flag is aligned to the first key, and a mask would cost."""
    method, inputs = built(name, causal=True)
    _, state = method.prefill(*cut(inputs, 20), capacity=40)
    with patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as watched:
        method.step(*cut(inputs, 21, start=20), state=state)
    given = watched.call_args.kwargs
    assert not given["is_causal"]
    assert given.get("attn_mask") is None


@pytest.mark.parametrize(("name", "width"), [("softmax.naive", 2 * 13), ("softmax.recompute", 4 * 8 + 2 * 13)])
def test_the_state_is_the_cache_and_without_one_the_tokens(name: str, width: int) -> None:
    method, inputs = built(name, kv_heads=2, M=5, causal=True)
    _, state = method.prefill(*cut(inputs, 3), capacity=40)
    assert method.state_bytes(state) == 2 * 40 * width * 4


SHAPES: tuple[dict[str, Any], ...] = ({}, {"causal": True}, {"N": 1}, {"kv_heads": 1})
CASES: list[tuple[str, dict[str, Any], str]] = [
    *(("softmax.sdpa", shape, "flash_cpu") for shape in SHAPES),
    *(("softmax.sdpa_math", shape, "math") for shape in (*SHAPES, {"D": 300}, {"D": 7})),
    *(("softmax.sdpa_flash", shape, "flash_cpu") for shape in (*SHAPES, {"D": 300}, {"D": 7})),
    ("softmax.sdpa", {"M": 4}, "math"),
    ("sparse.strided_masked", {"causal": True}, "flash_cpu"),
    *(("lsh.full", {"causal": causal}, "flash_cpu") for causal in (False, True)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "shape", "ran"), CASES, ids=str)
def test_the_kernel_that_ran_on_a_cpu_is_named(name: str, shape: dict[str, Any], ran: str, dtype: str) -> None:
    """Forced or chosen by torch, which falls back to its plain form where values have a width of their own."""
    method, inputs = built(name, B=1, dtype=dtype, **shape)
    with method.observe() as facts:
        method(*inputs).sum().backward()
    assert facts == {"backend": ran}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_it_is_seen_without_gradients_too_and_where_another_forced_it(mode: Any) -> None:
    method, inputs = built("softmax.sdpa")
    for forced, ran in ((sdpa_kernel(SDPBackend.MATH), "math"), (nullcontext(), "flash_cpu")):
        with forced, method.observe() as facts, mode():
            method(*inputs)
        assert facts == {"backend": ran}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "ran"), [("softmax.sdpa_math", "math"), ("softmax.sdpa_flash", "flash_cpu")])
def test_a_mask_or_a_step_changes_no_forced_backend(name: str, ran: str, causal: bool) -> None:
    method, (q, k, v) = built(name, causal=causal)
    with method.observe() as facts:
        method(q, k, v, key_mask=torch.rand(2, 40) > 0.5)
    assert facts == {"backend": ran}
    with torch.no_grad():
        _, state = method.prefill(q, k, v, capacity=41)
        with method.observe() as facts:
            method.step(q[:, :, :1], k[:, :, :1], v[:, :, :1], state=state)
    assert facts == {"backend": ran}


def test_forcing_ends_with_the_call_and_nothing_is_recorded_where_nothing_ran() -> None:
    (forced, inputs), (free, _) = built("softmax.sdpa_math"), built("softmax.sdpa")
    forced(*inputs)
    with free.observe() as facts:
        free(*inputs)
    assert facts == {"backend": "flash_cpu"}
    with free.observe() as facts:
        pass
    assert facts == {}


@pytest.mark.filterwarnings("ignore:Flash attention")
@pytest.mark.parametrize(("backend", "shape"), [("flash", {"M": 4}), ("efficient", {}), ("cudnn", {"dtype": "bfloat16"})])
def test_what_a_cpu_lacks_is_refused_in_words_and_torch_agrees(backend: str, shape: dict[str, Any]) -> None:
    words = "M=4 must equal D=8" if backend == "flash" else "it runs on CUDA devices"
    plain, inputs = built("softmax.naive", **shape)
    with pytest.raises(UnsupportedError, match=words):
        build_for(Cell(method=f"softmax.sdpa_{backend}", problem=plain.problem))
    method: Any = load(f"softmax.sdpa_{backend}")
    with pytest.raises(RuntimeError, match=r"No (available kernel|viable backend)"):
        method(plain.problem)(*inputs)


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
    inputs = [x.detach().cuda() for x in inputs_of(method)]
    mask = torch.ones(1, problem.N, dtype=torch.bool, device="cuda") if problem.padding else None
    with method.observe() as facts, nullcontext() if words is None else pytest.raises(RuntimeError):
        method(*inputs, key_mask=mask)
    assert words or facts == {"backend": backend}
