"""The Triton kernels of attention over quantised keys on a GPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem, Workload

# by name: installed under another name than that of its folder
triton: Any = import_module("attnbench_impls.vq.triton")
options: Any = import_module("attnbench_impls.vq.options")
tuning: Any = import_module("attnbench_impls.vq.triton_tuning")
pytestmark = pytest.mark.cuda
ROUNDING = 2e-6
"""What float32 leaves of a gradient that is exactly 0, as of a single key's."""
DTYPES = ["float32", "bfloat16", "float16"]
PARAMS: dict[str, Any] = {"codes": 96, "block": 128}


def built(params: dict[str, Any], **shape: Any) -> tuple[Any, tuple[Tensor, ...], Tensor]:
    p = Problem(**{"B": 1, "H": 2, "D": 64, "causal": True, **shape})
    method, generator = triton.TritonVQ(p, **params).to("cuda"), torch.Generator("cuda").manual_seed(7)
    inputs = tuple(x.requires_grad_() for x in triton.TritonVQ.inputs(p, generator))
    return method, inputs, torch.randn(p.B, p.H, p.N, p.M, generator=generator, device="cuda").to(inputs[0].dtype)


def evaluate(call: Any, inputs: tuple[Tensor, ...], g: Tensor, choices: Tensor | None = None) -> list[Tensor]:
    o = call(*inputs, choices=choices)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def assert_as_good_as_eager(method: Any, inputs: tuple[Tensor, ...], g: Tensor) -> None:
    """With the same codes: another key is another function."""
    codes, wide = method.choose(*inputs), tuple(x.detach().double().requires_grad_() for x in inputs)
    want = evaluate(method.reference, wide, g.double(), codes)
    results = (evaluate(call, inputs, g, codes) for call in (method, method.reference))
    for o, e, r in zip(*results, want, strict=True):
        # the codebook is rounded to the dtype of the keys, and that of the wide reference is not
        slack = (4 if o.dtype is torch.float32 else 8) * torch.finfo(o.dtype).eps * float(r.abs().max()) + ROUNDING
        assert distance(o, r) <= 2 * distance(e, r) + slack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("through_table", [True, False])
@pytest.mark.parametrize("N", [1, 64, 257, 1000, 2048])
def test_the_error_is_within_twice_that_of_the_definition(N: int, through_table: bool, causal: bool, dtype: str) -> None:
    params = {**PARAMS, "gradient_through_table": through_table}
    assert_as_good_as_eager(*built(params, N=N, causal=causal, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("D", "M"), [(16, 16), (32, 128), (128, 128), (256, 256), (256, 20), (20, 9), (1, 1)])
def test_widths_may_differ(D: int, M: int, dtype: str) -> None:
    assert_as_good_as_eager(*built(PARAMS, N=700, D=D, M=M, dtype=dtype))


@pytest.mark.parametrize(
    "params", [{"codes": 512, "block": 512}, {"codes": 1, "block": 7}, {"codes": 100, "block": 100}], ids=str
)
def test_blocks_and_codebooks_may_have_any_size(params: dict[str, Any]) -> None:
    assert_as_good_as_eager(*built(params, B=2, N=2000))


def test_tf32_is_taken_where_torch_allows_it() -> None:
    method, inputs, g = built(PARAMS, N=1000)
    codes, wide = method.choose(*inputs), tuple(x.detach().double().requires_grad_() for x in inputs)
    want = evaluate(method.reference, wide, g.double(), codes)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        got = evaluate(method, inputs, g, codes)
    finally:
        torch.set_float32_matmul_precision(before)
    for o, r in zip(got, want, strict=True):
        assert 1e-6 * float(r.abs().max()) < distance(o, r) < 1e-2 * float(r.abs().max())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_call_gives_the_same_bits_in_any_layout(dtype: str, causal: bool) -> None:
    method, inputs, g = built(PARAMS, B=2, N=4096, causal=causal, dtype=dtype)
    first = evaluate(method, inputs, g)
    tokens_first = tuple(x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs)
    for others in (inputs, tokens_first):
        assert all(torch.equal(a, b) for a, b in zip(first, evaluate(method, others, g), strict=True))


def test_no_token_sees_the_future() -> None:
    method, (q, k, v), _ = built(PARAMS, N=1000, dtype="bfloat16")
    with torch.no_grad():
        before = method(q, k, v)
        later = (torch.cat([x[:, :, :700], -3 * x[:, :, 700:]], 2) for x in (q, k, v))
        assert torch.equal(before[:, :, :700], method(*later)[:, :, :700])


@pytest.mark.parametrize("n", [0, 1, 130, 300])
def test_decoding_goes_on_where_the_kernels_stopped(n: int) -> None:
    method, inputs, _ = built({"codes": 40, "block": 32}, B=2, N=300)
    with torch.no_grad():
        o, state = method.prefill(*(x[:, :, :n] for x in inputs), capacity=300)
        found = [o]
        for t in range(n, 300):
            o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
            found.append(o)
        torch.testing.assert_close(torch.cat(found, 2), method(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [{"N": 65536}, {"N": 4096, "B": 8, "H": 16}], ids=str)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_the_predicted_peak_is_what_torch_allocates(workload: Workload, causal: bool, shape: dict[str, Any]) -> None:
    method, inputs, g = built({}, dtype="bfloat16", causal=causal, **shape)

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
    """The operator: what is before it is torch's own."""
    method, inputs, g = built(PARAMS, N=300)
    k_hat, codes, codebook = method.coded(inputs[1].detach(), None)

    def attend(q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None) -> Tensor:
        o: Tensor = method.attend(q, k, v, choices, codebook, 128, True, True)[0]
        return o

    leaves = (inputs[0], k_hat.requires_grad_(), inputs[2])
    for a, b in zip(
        evaluate(torch.compile(attend, fullgraph=True), leaves, g, codes), evaluate(attend, leaves, g, codes), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_other_blocks_can_be_timed() -> None:
    measure: Any = import_module("attnbench_impls.vq.triton_measure")
    problem = Problem(B=1, H=2, N=1024, D=32, dtype="bfloat16", causal=True)
    ((seconds, _),) = measure.timed(problem, options.VQOptions(), "attend", [tuning.Launch(64, 32, 4, 2)])
    assert seconds > 0
