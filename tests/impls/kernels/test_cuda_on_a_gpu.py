"""The CUDA kernels on a GPU: the same function as everywhere, in little memory, the same bits every time."""

import threading
from typing import Any

import pytest
import torch

from attnbench import Problem
from tests.impls.contract.calls import Call, evaluated, no_worse
from tests.impls.contract.subjects import Variant

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("cuda.core", minversion="1.0")


def called(**shape: Any) -> Call:
    return Call(Variant("linear.cuda"), Problem(causal=True, **shape), "cuda")


@pytest.mark.parametrize(
    "shape",
    [
        *(
            {"B": 2, "H": 3, "N": N, "D": D, "M": M, "dtype": dtype}
            for dtype in ("float32", "bfloat16")
            for N in (1, 63, 257, 2048)
            for D, M in ((64, 64), (128, 128), (20, 17), (64, 128), (16, 16))
        ),
        # so many heads that one segment is enough
        {"B": 16, "H": 32, "N": 130, "D": 64, "dtype": "float32"},
    ],
    ids=str,
)
def test_widths_may_differ_and_heads_be_many(shape: dict[str, Any]) -> None:
    call = called(**shape)
    # what float32 leaves of a gradient that is exactly 0, as of a single key's
    no_worse(call.results(), call.results("reference"), call.exact(), 2e-6)


def test_float16_survives_denominators_that_it_cannot_hold() -> None:
    call = called(B=1, H=1, N=65536, D=64, dtype="float16")
    method, (q, k, v) = call.method, call.inputs
    with torch.no_grad():
        o = method(q, k, v)[0, 0, -1]
        fq, fk = method.phi(q[0, 0, -1].double()), method.phi(k[0, 0].double())
        want = fq @ fk.mT @ v[0, 0].double() / (fq @ fk.mT).sum()
    assert float((o.double() - want).abs().max()) < 1e-3 < float(want.abs().max())


def test_every_run_gives_the_same_bits() -> None:
    call = called(B=1, H=2, N=5000, D=128, dtype="bfloat16")
    first = call.results()
    for _ in range(3):
        assert all(map(torch.equal, call.results(), first))


def test_it_runs_on_the_current_stream() -> None:
    call = called(B=1, H=2, N=4096, D=64, dtype="float32")
    method, inputs = call.method, call.inputs
    want, stream = method(*inputs), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        o = method(*inputs)
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(o, want)


def test_it_is_captured_into_a_graph() -> None:
    call = called(B=1, H=2, N=1000, D=64, dtype="float32")
    method, inputs = call.method, [x.detach() for x in call.inputs]
    want, graph = method(*inputs), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = method(*inputs)
    o.zero_()
    graph.replay()
    assert torch.equal(o, want)


def test_it_goes_through_torch_compile() -> None:
    call = called(B=1, H=2, N=300, D=64, dtype="float32")
    compiled = torch.compile(call.method, fullgraph=True)
    assert all(map(torch.equal, evaluated(compiled, call.inputs, call.g, ()), call.results()))


def test_a_thread_that_never_touched_the_device_can_launch() -> None:
    call, found = called(B=1, H=2, N=300, D=64, dtype="float32"), list[torch.Tensor]()
    want = call.forward()
    thread = threading.Thread(target=lambda: found.append(call.forward()))
    thread.start()
    thread.join()
    assert torch.equal(found[0], want)
