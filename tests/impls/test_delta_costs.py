"""What the delta family costs: predicted peaks against what torch allocates, FLOPs against the algorithm."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from tests.impls.conftest import few

FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
ALL = ["delta.deltanet", "delta.gated_deltanet", "delta.kda", "delta.rwkv7"]
SHAPES: list[dict[str, Any]] = [{"N": 1024, "D": 32, "M": 64}, {"N": 1000, "H": 2, "dtype": "bfloat16"}, {"N": 2048}]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("shape", few(SHAPES, 2), ids=str)
@pytest.mark.parametrize("name", ALL)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, Problem(**{"B": 1, "H": 4, "D": 64, "causal": True, **shape}))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("shape", [{}, {"D": 32, "M": 96}], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_a_step_allocates_what_its_cost_says(name: str, shape: dict[str, Any], inputs_of: Any) -> None:
    method: Any = build(name, Problem(**{"B": 2, "H": 4, "N": 4, "D": 64, "causal": True, **shape}))
    token = [x.detach()[:, :, :1] for x in inputs_of(method)]
    _, state = method.prefill(*token, capacity=4)
    predicted = type(method).cost(method.problem, {}, Workload.DECODE).peak_bytes
    assert torch_profiler_peak(lambda: method.step(*token, state=state)).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("name", ALL)
def test_a_whole_sequence_of_steps_costs_as_many_steps_and_keeps_the_state(name: str) -> None:
    problem = Problem(B=2, H=4, N=100, D=32, M=16, causal=True)
    one, whole = (load(name).cost(problem, {}, w) for w in (Workload.DECODE, Workload.DECODE_TOTAL))
    state = 2 * 4 * 32 * 16 * 4
    assert whole.executed_flops == 100 * one.executed_flops
    assert whole.peak_bytes == one.peak_bytes + state
    assert one.traffic_bytes > 2 * state
    assert one.nominal_flops == nominal_flops(problem, Workload.DECODE)


def test_the_count_is_that_of_the_products() -> None:
    problem = Problem(B=1, H=1, N=100, D=32, M=16, causal=True)
    cost = load("delta.deltanet").cost(problem, {"chunk": 64}, FORWARD)
    squares = 64**2 + 36**2
    # K Kᵀ and Q Kᵀ; the triangular system; the sums over pairs; W S, Kᵀ U and Q S
    assert cost.executed_flops == squares * (2 * 2 * 32 + (32 + 16) + 2 * 16) + 100 * 3 * 2 * 32 * 16
    assert cost.exact_flops == 100 * 3 * 2 * 32 * 16
    assert cost.traffic_bytes == 4 * 100 * (32 + 32 + 16 + 16 + 1)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("name", ALL)
def test_work_and_memory_grow_with_the_length(name: str, workload: Workload) -> None:
    short, long = (load(name).cost(Problem(B=2, N=N, causal=True), {}, workload) for N in (4096, 16384))
    assert long.executed_flops == 4 * short.executed_flops
    assert short.executed_flops > short.exact_flops
    assert 2 < long.peak_bytes / short.peak_bytes < 4.001


@pytest.mark.parametrize("name", ALL)
def test_the_memory_of_a_backward_is_linear_and_small(name: str, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=4096, D=8, causal=True))
    inputs, g = inputs_of(method), gradient_of(method)
    elements = 4096 * 8 * 2 * 4
    # scores of all chunks at once would be 64 / 8 = 8 times an input, all pairs 512 times
    assert (torch_profiler_peak(lambda: evaluate(method, "forward", inputs, g)).bytes or 0) < 100 * elements


@pytest.mark.parametrize("name", ALL)
def test_a_bad_parameter_is_refused_in_a_cost_too(name: str) -> None:
    with pytest.raises(ValueError, match="chunk=0"):
        load(name).cost(Problem(N=8, causal=True), {"chunk": 0}, FORWARD)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8, causal=True), {"colour": 3}, FORWARD)
