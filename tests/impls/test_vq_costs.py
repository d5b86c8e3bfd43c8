"""The costs of attention over quantised keys: products counted by hand, peaks as torch allocates them."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.api import Workload, dense_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from tests.impls.conftest import few

blockwise: Any = import_module("attnbench_impls.vq.blockwise")
gau: Any = import_module("attnbench_impls.vq.gau")
quantised: Any = import_module("attnbench_impls.vq.quantised")
work: Any = import_module("attnbench_impls.vq.work")

Blockwise, Gated, Quantised = blockwise.BlockwiseVQ, gau.GatedVQ, quantised.QuantisedSoftmax
FORWARD, BOTH, STEP, TOTAL = WORKLOADS = tuple(Workload)[:4]
FEW = {"codes": 64, "block": 64}
SIZES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (Blockwise, {"N": 1024}, FEW),
    (Blockwise, {"N": 4096, "H": 2}, {"codes": 128, "block": 256}),
    (Blockwise, {"N": 1000, "M": 32, "B": 2, "dtype": "float64"}, FEW),
    (Blockwise, {"N": 2048}, {**FEW, "reduction": "scan"}),
    (Blockwise, {"N": 2048, "dtype": "bfloat16"}, FEW),
    (Blockwise, {"N": 1024}, {**FEW, "bias": "relative"}),
    (Blockwise, {"N": 2048, "H": 2}, {**FEW, "bias": "relative"}),
    (Gated, {"N": 1024}, FEW),
    (Gated, {"N": 2048, "H": 1, "M": 128}, FEW),
    (Quantised, {"N": 2048, "H": 8}, {"codes": 64}),
    (Quantised, {"N": 2048, "M": 32, "B": 4}, {"codes": 64}),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def call_of(method: Any, workload: Workload, inputs: Any, g: Any) -> Any:
    N, token = method.problem.N, [x.detach()[:, :, :1] for x in inputs]
    if workload is BOTH:
        return lambda: torch.autograd.grad(method(*inputs), [*inputs, *method.parameters()], g)

    def forward() -> object:
        with torch.no_grad():
            return method(*inputs)

    def from_nothing() -> object:
        with torch.no_grad():
            o, state = method.prefill(*(x[:, :, :0] for x in token), capacity=N)
            for _ in range(N):
                o, state = method.step(*token, state=state)
            return o

    def step() -> object:
        with torch.no_grad():
            return method.step(*token, state=before)

    if workload is STEP:
        before = method.prefill(*(x.detach()[:, :, : N - 1] for x in inputs), capacity=N)[1]
    return {FORWARD: forward, STEP: step, TOTAL: from_nothing}[workload]


CASES = [
    *((*size, workload) for size in SIZES[::2] for workload in (FORWARD, BOTH)),
    *((*size, workload) for size in SIZES[::4] for workload in (STEP, TOTAL)),
]
MORE = [
    *((*size, workload) for size in SIZES[1::2] for workload in (FORWARD, BOTH)),
    *((*size, workload) for size in SIZES[2::4] for workload in (STEP, TOTAL)),
]


@pytest.mark.parametrize(("kind", "shape", "params", "workload"), few([*CASES, *MORE], len(CASES)), ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    kind: Any, shape: dict[str, Any], params: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    if workload is TOTAL:
        shape = {**shape, "N": 140}
    problem = Problem(**{"B": 1, "H": 4, "D": 64, "causal": True, **shape})
    method = kind(problem, **params).to(getattr(torch, problem.dtype))
    call = call_of(method, workload, inputs_of(method), gradient_of(method))
    call()
    predicted = kind.cost(problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("workload", few([BOTH, FORWARD], 1))
@pytest.mark.parametrize("kind", [Blockwise, Gated, Quantised])
def test_so_it_is_without_a_mask(kind: Any, workload: Workload, inputs_of: Any, gradient_of: Any) -> None:
    problem, params = Problem(B=1, H=8, N=2048, D=64), {"codes": 64}
    method = kind(problem, **params)
    call = call_of(method, workload, inputs_of(method), gradient_of(method))
    call()
    assert torch_profiler_peak(call).bytes == pytest.approx(kind.cost(problem, params, workload).peak_bytes, rel=0.1)


def test_memory_grows_with_the_length_and_not_with_its_square(inputs_of: Any, gradient_of: Any) -> None:
    peaks = []
    for N in (1024, 4096):
        method = Blockwise(Problem(H=1, N=N, D=32, causal=True), **FEW)
        inputs, g = inputs_of(method), gradient_of(method)
        call = call_of(method, BOTH, inputs, g)
        call()
        peaks.append((torch_profiler_peak(call).bytes or 0) / N)
    assert peaks[1] <= 1.1 * peaks[0]
    long = [Blockwise.cost(Problem(N=N, causal=True), {}, BOTH).peak_bytes / N for N in (2**14, 2**18)]
    assert long[1] <= 1.5 * long[0]


def visible(N: int, L: int) -> tuple[int, int, int]:
    """Keys in windows, queries with a table, distances up to L, counted one by one."""
    windows = sum(i + 1 - max(0, i // L - 1) * L for i in range(N))
    return windows, sum(i // L >= 2 for i in range(N)), sum(min(i, L) + 1 for i in range(N))


@pytest.mark.parametrize("N", [1, 7, 8, 9, 16, 17, 100])
def test_products_are_those_of_what_is_seen(N: int) -> None:
    problem, params = Problem(B=2, H=3, N=N, D=4, M=6, causal=True), {"codes": 10, "block": 8}
    windows, tables, distances = visible(N, 8)
    pairs = windows + 10 * tables
    cost = Blockwise.cost(problem, params, FORWARD)
    assert cost.nominal_flops == dense_flops(problem)
    assert cost.exact_flops == cost.executed_flops == 6 * 2 * (N * 10 * 4 + pairs * (4 + 6))
    both = Blockwise.cost(problem, params, BOTH)
    assert both.exact_flops == cost.exact_flops + 6 * 2 * (windows * 2 * 10 + 10 * tables * (4 + 2 * 6))
    assert both.executed_flops == cost.executed_flops + 6 * 2 * pairs * (3 * 4 + 2 * 6)
    with_positions = Blockwise.cost(problem, {**params, "bias": "relative"}, FORWARD)
    rows = 2 * 3 * min(N, 9) * 4 * 4
    assert with_positions.exact_flops == cost.exact_flops + 6 * 2 * 4 * distances + rows


def test_without_a_mask_every_query_sees_the_table() -> None:
    cost = Blockwise.cost(Problem(B=2, H=3, N=100, D=4, M=6), {"codes": 10}, FORWARD)
    assert cost.exact_flops == cost.executed_flops == 6 * 2 * 100 * 10 * (4 + 4 + 6)


@pytest.mark.parametrize("kind", [Blockwise, Gated, Quantised])
def test_a_whole_sequence_costs_the_sum_of_its_steps(kind: Any) -> None:
    params = {"codes": 10} if kind is Quantised else {"codes": 10, "block": 4, "bias": "relative"}

    def cost(workload: Workload, N: int) -> Any:
        return kind.cost(Problem(B=2, H=3, N=N, D=4, M=6, causal=True), params, workload)

    for N in (1, 3, 8, 9, 30):
        steps = [cost(STEP, n) for n in range(1, N + 1)]
        for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
            assert getattr(cost(TOTAL, N), field) == sum(getattr(step, field) for step in steps), field


def test_a_step_costs_no_more_than_a_full_window_wherever_it_stands() -> None:
    costs = [Blockwise.cost(Problem(N=N, causal=True), {}, STEP).exact_flops for N in (10**4, 10**5, 10**6)]
    most = 2 * 8 * (512 * 64 + (512 + 1024) * 128)
    assert max(costs) <= most
    assert min(costs) >= 2 * 8 * (512 * 64 + (512 + 512) * 128)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("bias", ["none", "relative"])
@pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
def test_none_executes_less_than_its_definition_needs(reduction: str, bias: str, workload: Workload) -> None:
    for N in (1, 100, 3000):
        cost = Blockwise.cost(Problem(N=N, causal=True), {"reduction": reduction, "bias": bias}, workload)
        assert cost.executed_flops >= cost.exact_flops


def test_tables_by_products_are_counted() -> None:
    problem = Problem(N=512 * 12, causal=True)
    serial, matmul = (Blockwise.cost(problem, {"reduction": r}, FORWARD).executed_flops for r in ("serial", "matmul"))
    assert matmul - serial == 8 * 2 * 512 * 10 * 10 * 64


def test_linear_work_is_less_than_dense_from_some_length_on() -> None:
    def ratio(N: int) -> float:
        cost = Blockwise.cost(Problem(N=N, causal=True), {}, FORWARD)
        return float(cost.executed_flops / cost.nominal_flops)

    assert ratio(16384) < 0.25 < 1 < ratio(1024)


def test_a_gate_is_moved_as_well() -> None:
    problem = Problem(B=2, H=3, N=100, D=4, M=6, causal=True)
    gate = 2 * 3 * 100 * 6 * 4
    for workload, times in ((FORWARD, 1), (BOTH, 3)):
        plain, gated = (kind.cost(problem, {}, workload).traffic_bytes for kind in (Blockwise, Gated))
        assert gated - plain == times * gate
