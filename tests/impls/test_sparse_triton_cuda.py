"""The sparse Triton kernels on a GPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem, Workload

# by name: installed under another name than that of its folder
triton: Any = import_module("attnbench_impls.sparse.triton")
tuning: Any = import_module("attnbench_impls.sparse.triton_tuning")
pytestmark = pytest.mark.cuda
ROUNDING = 2e-6
"""What float32 leaves of a gradient that is exactly 0, as of a single key's."""
DTYPES = ["float32", "bfloat16", "float16"]
PATTERNS: list[tuple[str, dict[str, Any]]] = [
    ("Strided", {"stride": 32}),
    ("Strided", {"stride": 32, "convention": "code", "mode": "per_head"}),
    ("Strided", {"stride": 20, "mode": "by_layer", "layer": 1}),
    ("Fixed", {"stride": 64, "c": 8}),
    ("Fixed", {"stride": 40, "c": 5, "mode": "per_head"}),
    ("Fixed", {"stride": 64, "c": 8, "mode": "by_layer", "layer": 1}),
    ("Local", {"stride": 100}),
    ("Atrous", {"stride": 16, "reach": 20}),
    ("Window", {"window": 129}),
    ("Longformer", {"window": 64, "globals": 3}),
    ("Longformer", {"window": 64, "globals": 2, "dilation": 3, "dilated_heads": 1}),
]


def built(kind: str, params: dict[str, Any], **shape: Any) -> tuple[Any, tuple[Tensor, ...], Tensor]:
    method = getattr(triton, f"Triton{kind}")(Problem(**{"B": 1, "H": 2, "causal": True, **shape}), **params)
    generator, p = torch.Generator("cuda").manual_seed(7), method.problem
    inputs = tuple(x.requires_grad_() for x in type(method).inputs(p, generator))
    return method, inputs, torch.randn(p.B, p.H, p.N, p.M, generator=generator, device="cuda").to(inputs[0].dtype)


def evaluate(call: Any, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    o = call(*inputs)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def assert_as_good_as_eager(method: Any, inputs: tuple[Tensor, ...], g: Tensor) -> None:
    wide = tuple(x.detach().double().requires_grad_() for x in inputs)
    want = evaluate(method.reference, wide, g.double())
    for o, e, r in zip(evaluate(method, inputs, g), evaluate(method.reference, inputs, g), want, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max()) + ROUNDING
        assert distance(o, r) <= 2 * distance(e, r) + slack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("kind", "params"), PATTERNS, ids=str)
@pytest.mark.parametrize("N", [1, 64, 257, 1024])
def test_the_error_is_within_twice_that_of_the_definition(
    N: int, kind: str, params: dict[str, Any], causal: bool, dtype: str
) -> None:
    assert_as_good_as_eager(*built(kind, params, N=N, D=64, causal=causal, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("D", "M"), [(16, 16), (32, 128), (128, 128), (256, 256), (256, 20), (20, 9), (1, 1)])
def test_widths_may_differ(D: int, M: int, dtype: str) -> None:
    assert_as_good_as_eager(*built("Fixed", {"stride": 64, "c": 8}, N=300, D=D, M=M, dtype=dtype))
    assert_as_good_as_eager(*built("Strided", {"stride": 32}, N=300, D=D, M=M, dtype=dtype))


@pytest.mark.parametrize(("kind", "params"), PATTERNS, ids=str)
def test_heads_of_q_may_share_heads_of_k_and_v(kind: str, params: dict[str, Any]) -> None:
    for kv_heads in (1, 2):
        assert_as_good_as_eager(*built(kind, params, B=2, H=8, kv_heads=kv_heads, N=300, D=64))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_shared_out_among_programs_are_no_worse(dtype: str) -> None:
    method, inputs, g = built("Longformer", {"window": 64, "globals": 5}, N=8192, D=64, causal=False, dtype=dtype)
    assert_as_good_as_eager(method, inputs, g)


def test_tf32_is_taken_where_torch_allows_it() -> None:
    method, inputs, g = built("Strided", {"stride": 32}, N=1000, D=64)
    wide = tuple(x.detach().double().requires_grad_() for x in inputs)
    want = evaluate(method.reference, wide, g.double())
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        got = evaluate(method, inputs, g)
    finally:
        torch.set_float32_matmul_precision(before)
    for o, r in zip(got, want, strict=True):
        assert 1e-6 * float(r.abs().max()) < distance(o, r) < 1e-2 * float(r.abs().max())


@pytest.mark.parametrize(("kind", "params"), PATTERNS, ids=str)
def test_the_same_call_gives_the_same_bits_in_any_layout(kind: str, params: dict[str, Any]) -> None:
    method, inputs, g = built(kind, params, B=2, H=4, kv_heads=2, N=4096, D=64, dtype="bfloat16")
    first = evaluate(method, inputs, g)
    tokens_first = tuple(x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs)
    for others in (inputs, tokens_first):
        assert all(torch.equal(a, b) for a, b in zip(first, evaluate(method, others, g), strict=True))


@pytest.mark.parametrize(("kind", "params"), PATTERNS, ids=str)
def test_no_token_sees_the_future(kind: str, params: dict[str, Any]) -> None:
    method, (q, k, v), _ = built(kind, params, N=1000, D=64, dtype="bfloat16")
    with torch.no_grad():
        before = method(q, k, v)
        later = (torch.cat([x[:, :, :700], -3 * x[:, :, 700:]], 2) for x in (q, k, v))
        assert torch.equal(before[:, :, :700], method(*later)[:, :, :700])


@pytest.mark.parametrize("n", [0, 130, 200])
@pytest.mark.parametrize(("kind", "params"), PATTERNS, ids=str)
def test_decoding_goes_on_where_the_kernels_stopped(kind: str, params: dict[str, Any], n: int) -> None:
    method, (q, k, v), _ = built(kind, params, B=2, N=200, D=64)
    with torch.no_grad():
        o, state = method.prefill(q[:, :, :n], k[:, :, :n], v[:, :, :n], capacity=200)
        found = [o]
        for t in range(n, 200):
            o, state = method.step(*(x[:, :, t : t + 1] for x in (q, k, v)), state=state)
            found.append(o)
        torch.testing.assert_close(torch.cat(found, 2), method(q, k, v), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [{"N": 65536}, {"N": 4096, "B": 8, "H": 16}], ids=str)
@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("kind", ["Strided", "Fixed", "Longformer"])
def test_the_predicted_peak_is_what_torch_allocates(kind: str, workload: Workload, shape: dict[str, Any]) -> None:
    method, inputs, g = built(kind, {}, D=64, dtype="bfloat16", causal=False, **shape)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return evaluate(method, inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    torch.cuda.synchronize()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    predicted = method.cost(method.problem, {}, workload).peak_bytes
    assert torch.cuda.max_memory_allocated() - base == pytest.approx(predicted, rel=0.1)


def test_it_compiles_into_one_graph() -> None:
    method, inputs, g = built("Strided", {"stride": 32}, N=300, D=64)
    for a, b in zip(evaluate(torch.compile(method, fullgraph=True), inputs, g), evaluate(method, inputs, g), strict=True):
        torch.testing.assert_close(a, b)


def test_other_blocks_can_be_timed() -> None:
    measure: Any = import_module("attnbench_impls.sparse.triton_measure")
    method = built("Window", {"window": 128}, N=64, D=32)[0]
    problem = Problem(B=1, H=2, N=1024, D=32, dtype="bfloat16", causal=True)
    ((seconds, _),) = measure.timed(problem, method.pattern, "attend", [tuning.Launch(64, 32, 4, 2)])
    assert seconds > 0
