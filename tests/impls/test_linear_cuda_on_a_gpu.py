"""The CUDA kernels on a GPU: the same function as everywhere, in little memory, the same bits every time."""

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from attnbench.api import Workload
from attnbench.registry import load

pytestmark = pytest.mark.cuda
ROUNDING = 2e-6
"""What float32 leaves of a gradient that is exactly 0, as of a single key's."""

WIDTHS = [(64, 64), (128, 128), (20, 17), (64, 128), (16, 16)]


@pytest.fixture
def product() -> Any:
    pytest.importorskip("cuda.core", minversion="1.0")
    return import_module("attnbench_impls.linear.cuda_product")


def build(feature_map: str = "elu_plus_one", **shape: Any) -> Any:
    pytest.importorskip("cuda.core", minversion="1.0")
    params: dict[str, Any] = {"feature_map": feature_map}
    return load("linear.cuda")(Problem(causal=True, **shape), **params)


def drawn(method: Any) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs that ask for gradients, and dL/do."""
    inputs = type(method).inputs(method.problem, torch.Generator("cuda").manual_seed(7))
    for x in inputs:
        x.requires_grad_()
    generator = torch.Generator("cuda").manual_seed(11)
    return inputs, torch.randn(inputs[2].shape, generator=generator, device="cuda").to(inputs[2].dtype)


def results(call: Callable[..., Tensor], inputs: tuple[Tensor, ...], g: Tensor, **keywords: Any) -> list[Tensor]:
    o = call(*inputs, **keywords)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def check(method: Any, **keywords: Any) -> None:
    """Within twice the error of the definition in the same dtype, and a few units in the last place."""
    inputs, g = drawn(method)
    wide = tuple(x.detach().double().requires_grad_() for x in inputs)
    got, eager = results(method, inputs, g, **keywords), results(method.reference, inputs, g, **keywords)
    exact = results(method.reference, wide, g.double(), **keywords)
    for o, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max()) + ROUNDING
        assert distance(o, r) <= 2 * distance(e, r) + slack


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
@pytest.mark.parametrize(("D", "M"), WIDTHS)
def test_values_and_gradients_are_those_of_the_definition(D: int, M: int, N: int, dtype: str) -> None:
    check(build(B=2, H=3, N=N, D=D, M=M, dtype=dtype))


@pytest.mark.parametrize("N", [1, 63, 257])
def test_so_they_are_in_float16(N: int) -> None:
    # longer, the definition's own denominators pass 65504
    check(build(B=2, H=3, N=N, D=64, dtype="float16"))


@pytest.mark.parametrize("feature_map", ["relu", "squared_relu"])
def test_so_they_are_under_other_feature_maps(feature_map: str) -> None:
    check(build(feature_map, B=2, H=3, N=300, D=32, dtype="float32"))


def test_hidden_keys_add_nothing() -> None:
    mask = torch.arange(300, device="cuda") < torch.tensor([[300], [120]], device="cuda")
    check(build(B=2, H=3, N=300, D=64, dtype="float32"), key_mask=mask)


def test_so_many_heads_that_one_segment_is_enough() -> None:
    check(build(B=16, H=32, N=130, D=64, dtype="float32"))


def test_float16_survives_denominators_that_it_cannot_hold() -> None:
    method = build(B=1, H=1, N=65536, D=64, dtype="float16")
    (q, k, v), _ = drawn(method)
    with torch.no_grad():
        o = method(q, k, v)[0, 0, -1]
        fq, fk = method.phi(q[0, 0, -1].double()), method.phi(k[0, 0].double())
        want = fq @ fk.mT @ v[0, 0].double() / (fq @ fk.mT).sum()
    assert distance(o, want) < 1e-3 < float(want.abs().max())


def test_the_future_changes_no_bit_of_the_past() -> None:
    method = build(B=1, H=2, N=3000, D=64, dtype="bfloat16")
    inputs = [x.detach() for x in drawn(method)[0]]
    before = method(*inputs)
    for x in inputs:
        x[:, :, 1700:] += 1
    assert torch.equal(method(*inputs)[:, :, :1700], before[:, :, :1700])


def test_every_run_gives_the_same_bits() -> None:
    method = build(B=1, H=2, N=5000, D=128, dtype="bfloat16")
    inputs, g = drawn(method)
    first = results(method, inputs, g)
    for _ in range(3):
        assert all(map(torch.equal, results(method, inputs, g), first))


@pytest.mark.parametrize(("B", "N"), [(64, 1024), (1, 65536)])
@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_it_allocates_what_its_cost_says(workload: Workload, B: int, N: int) -> None:
    method = build(B=B, H=8, N=N, D=64, dtype="bfloat16")
    inputs, g = drawn(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return results(method, inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    added = torch.cuda.max_memory_allocated() - before
    assert added == pytest.approx(type(method).cost(method.problem, {}, workload).peak_bytes, rel=0.02)


def test_it_runs_on_the_current_stream() -> None:
    method = build(B=1, H=2, N=4096, D=64, dtype="float32")
    inputs, _ = drawn(method)
    want, stream = method(*inputs), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        o = method(*inputs)
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(o, want)


def test_it_is_captured_into_a_graph() -> None:
    method = build(B=1, H=2, N=1000, D=64, dtype="float32")
    inputs = [x.detach() for x in drawn(method)[0]]
    want, graph = method(*inputs), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = method(*inputs)
    o.zero_()
    graph.replay()
    assert torch.equal(o, want)


def test_it_goes_through_torch_compile() -> None:
    method = build(B=1, H=2, N=300, D=64, dtype="float32")
    inputs, g = drawn(method)
    compiled = torch.compile(method, fullgraph=True)
    assert all(map(torch.equal, results(compiled, inputs, g), results(method, inputs, g)))


def test_the_operators_keep_torchs_rules(product: Any) -> None:
    (q, k, v), _ = drawn(build(B=1, H=2, N=300, D=64, dtype="float32"))
    torch.library.opcheck(product.causal_linear_forward, (q, k, v, "elu_plus_one", 1e-6))


def test_a_thread_that_never_touched_the_device_can_launch() -> None:
    method = build(B=1, H=2, N=300, D=64, dtype="float32")
    inputs, found = [x.detach() for x in drawn(method)[0]], []
    want = method(*inputs)
    thread = threading.Thread(target=lambda: found.append(method(*inputs)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], want)
