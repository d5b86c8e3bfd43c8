"""The formulas agree with the algorithms, and the predicted peak with what torch allocates."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, io_bytes, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from tests.impls.conftest import few

METHODS = ["gated.retnet", "gated.lightning", "gated.mamba2", "gated.gla", "gated.hgrn2"]
WORKLOADS = [w for w in Workload if w.is_timed and not w.has_model]
SHAPES: list[dict[str, Any]] = [
    {"N": 300, "dtype": "float64", "D": 96, "M": 32},
    {"N": 2000, "dtype": "bfloat16"},
    {"N": 1024},
    {"N": 2048, "B": 3, "D": 32, "M": 96},
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Scratch of the libraries below torch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def calls(method: Any) -> dict[Workload, Callable[[], object]]:
    p = method.problem
    inputs = type(method).inputs(p, torch.Generator().manual_seed(1))
    leaves = [x.detach().requires_grad_() for x in inputs]
    token, g = [x[:, :, :1].contiguous() for x in inputs], torch.randn(p.B, p.H, p.N, p.M).to(inputs[0].dtype)
    with torch.no_grad():
        _, before = method.prefill(*(x[:, :, :3] for x in inputs), capacity=p.N)

    @torch.no_grad()
    def sequence() -> object:
        # a few stand for all: each leaves the state as large as it was
        o, state = method.prefill(*(x[:, :, :0] for x in inputs), capacity=p.N)
        for _ in range(3):
            o, state = method.step(*token, state=state)
        return o

    return {
        Workload.FORWARD: torch.no_grad()(lambda: method(*inputs)),
        Workload.FORWARD_BACKWARD: lambda: torch.autograd.grad(method(*leaves), [*leaves, *method.parameters()], g),
        Workload.DECODE: torch.no_grad()(lambda: method.step(*token, state=before)[0]),
        Workload.DECODE_TOTAL: sequence,
    }


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("shape", few(SHAPES, 2), ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_the_predicted_peak_is_what_torch_allocates(name: str, shape: dict[str, Any], workload: Workload) -> None:
    problem = Problem(**{"B": 1, "H": 4, "D": 64, **shape}, causal=True)
    method = build(name, problem).to(getattr(torch, problem.dtype))
    call = calls(method)[workload]
    call()
    predicted = load(name).cost(problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("name", METHODS)
def test_work_grows_with_the_length_and_counts_its_products(name: str) -> None:
    short, long = (Problem(B=2, H=4, N=N, D=64, M=32, causal=True) for N in (1024, 4096))
    for workload in WORKLOADS[:2]:
        one, four = (load(name).cost(p, {}, workload) for p in (short, long))
        assert one.nominal_flops == nominal_flops(short, workload)
        assert four.executed_flops == 4 * one.executed_flops >= 4 * one.exact_flops
    # scores and values within a chunk of 64, then the state written and read
    assert load(name).cost(short, {"chunk": 64}, Workload.FORWARD).executed_flops == 2 * 2 * 4 * 1024 * (64 * 96 + 2 * 64 * 32)
    # the tail of 36 tokens is a chunk of its own
    tail = load(name).cost(Problem(B=1, H=1, N=100, D=64, causal=True), {"chunk": 64}, Workload.FORWARD).executed_flops
    assert tail == 2 * ((64**2 + 36**2) * 128 + 100 * 2 * 64 * 64)


@pytest.mark.parametrize("name", METHODS)
def test_a_step_costs_the_same_at_any_length_and_moves_the_state(name: str) -> None:
    near, far = (load(name).cost(Problem(N=N, causal=True), {}, Workload.DECODE) for N in (10, 1000))
    assert near.executed_flops == far.executed_flops == 8 * 4 * 64 * 64
    assert near.traffic_bytes == far.traffic_bytes > 2 * 8 * 64 * 64 * 4
    whole = load(name).cost(Problem(N=1000, causal=True), {}, Workload.DECODE_TOTAL)
    assert whole.executed_flops == 1000 * near.executed_flops
    assert whole.peak_bytes > 8 * 64 * 64 * 4 > near.peak_bytes


@pytest.mark.parametrize(("name", "gates"), [("gated.retnet", 0), ("gated.mamba2", 1), ("gated.gla", 64), ("gated.hgrn2", 0)])
def test_gates_are_read_once_and_their_gradients_written(name: str, gates: int) -> None:
    p = Problem(B=2, H=3, N=100, causal=True)
    rows = 2 * 3 * 100 * 4
    assert load(name).cost(p, {}, Workload.FORWARD).traffic_bytes == io_bytes(p, Workload.FORWARD) + rows * gates
    both = Workload.FORWARD_BACKWARD
    assert load(name).cost(p, {}, both).traffic_bytes == io_bytes(p, both) + 3 * rows * gates
