"""The Triton kernels of linear attention on a GPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem, Workload

# by name: installed under another name than that of its folder
TritonLinear: Any = import_module("attnbench_impls.linear.triton").TritonLinear
tuning: Any = import_module("attnbench_impls.linear.triton_tuning")
PROGRAMS = tuning.PROGRAMS
pytestmark = pytest.mark.cuda
ROUNDING = 2e-6
"""What float32 leaves of a gradient that is exactly 0, as of a single key's."""
DTYPES = ["float32", "bfloat16", "float16"]


def built(**shape: Any) -> tuple[Any, tuple[Tensor, ...], Tensor]:
    method = TritonLinear(Problem(**{"B": 1, "H": 2, "causal": True, **shape}))
    generator = torch.Generator("cuda").manual_seed(7)
    inputs = tuple(x.requires_grad_() for x in TritonLinear.inputs(method.problem, generator))
    return method, inputs, torch.randn(inputs[2].shape, generator=generator, device="cuda").to(inputs[2].dtype)


def evaluate(call: Any, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    o = call(*inputs)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def assert_as_good_as_eager(got: list[Tensor], eager: list[Tensor], want: list[Tensor]) -> None:
    for o, e, r in zip(got, eager, want, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max()) + ROUNDING
        # in float16 the definition overflows at some length, and is no measure any more
        allowed = 2 * distance(e, r) if e.isfinite().all() else 2**-6 * float(r.abs().max())
        assert distance(o, r) <= allowed + slack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(N: int, width: int, dtype: str) -> None:
    method, inputs, g = built(N=N, D=width, dtype=dtype)
    wide = tuple(x.detach().double().requires_grad_() for x in inputs)
    got, eager = evaluate(method, inputs, g), evaluate(method.reference, inputs, g)
    assert_as_good_as_eager(got, eager, evaluate(method.reference, wide, g.double()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sequences_are_no_worse(dtype: str) -> None:
    test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(8192, 64, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("D", "M"), [(32, 128), (128, 32), (20, 9), (1, 1)])
def test_widths_may_differ(D: int, M: int, dtype: str) -> None:
    method, inputs, g = built(N=300, D=D, M=M, dtype=dtype)
    wide = tuple(x.detach().double().requires_grad_() for x in inputs)
    got, eager = evaluate(method, inputs, g), evaluate(method.reference, inputs, g)
    assert_as_good_as_eager(got, eager, evaluate(method.reference, wide, g.double()))


def test_tf32_is_taken_where_torch_allows_it() -> None:
    method, inputs, g = built(N=1000, D=64)
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


def test_one_segment_a_head_or_many_give_the_same() -> None:
    """With as many heads as fill the GPU there is one; with the first alone there are many."""
    _, (q, k, v), g = built(B=PROGRAMS, H=1, N=1000, D=64, dtype="bfloat16")
    method = TritonLinear(Problem(B=1, H=1, N=1000, D=64, dtype="bfloat16", causal=True))
    one = evaluate(method, (q, k, v), g)
    first = tuple(x[:1].detach().requires_grad_() for x in (q, k, v))
    for a, b in zip(evaluate(method, first, g[:1]), one, strict=True):
        assert distance(a, b[:1]) <= 2**-6 * float(b[:1].abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_call_gives_the_same_bits(dtype: str) -> None:
    method, inputs, g = built(N=4096, D=64, dtype=dtype)
    first, second = evaluate(method, inputs, g), evaluate(method, inputs, g)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_no_token_sees_the_future() -> None:
    method, (q, k, v), _ = built(N=1000, D=64, dtype="bfloat16")
    with torch.no_grad():
        before = method(q, k, v)
        later = (torch.cat([x[:, :, :700], -3 * x[:, :, 700:]], 2) for x in (q, k, v))
        assert torch.equal(before[:, :, :700], method(*later)[:, :, :700])


def test_tokens_first_in_memory_gives_the_same_bits() -> None:
    method, inputs, g = built(B=2, N=500, D=64, dtype="bfloat16")
    others = tuple(x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs)
    for a, b in zip(evaluate(method, inputs, g), evaluate(method, others, g), strict=True):
        assert torch.equal(a, b)


def test_hidden_keys_do_not_exist() -> None:
    method, inputs, _ = built(B=2, N=500, D=64)
    mask = torch.rand(2, 500, device="cuda") < 0.6
    with torch.no_grad():
        got, want = method(*inputs, key_mask=mask), method.reference(*(x.double() for x in inputs), key_mask=mask)
    assert distance(got, want) < 1e-5


@pytest.mark.parametrize("shape", [{"N": 65536}, {"N": 4096, "B": 8, "H": 64}], ids=str)
@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_the_predicted_peak_is_what_torch_allocates(workload: Workload, shape: dict[str, Any]) -> None:
    method, inputs, g = built(D=64, dtype="bfloat16", **shape)

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
    assert torch.cuda.max_memory_allocated() - base == pytest.approx(
        TritonLinear.cost(method.problem, {}, workload).peak_bytes, rel=0.1
    )


def test_it_compiles_into_one_graph() -> None:
    method, inputs, g = built(N=300, D=64)
    for a, b in zip(evaluate(torch.compile(method, fullgraph=True), inputs, g), evaluate(method, inputs, g), strict=True):
        torch.testing.assert_close(a, b)


def test_other_blocks_can_be_timed() -> None:
    measure: Any = import_module("attnbench_impls.linear.triton_measure")
    found = measure.timed(
        Problem(B=1, H=2, N=1024, D=32, dtype="bfloat16", causal=True), "attend", [tuning.Launch(64, 32, 4, 2)]
    )
    assert len(found) == 1
    assert found[0][0] > 0
