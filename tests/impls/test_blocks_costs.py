"""The formulas of attention over blocks agree with what is computed, and the predicted peaks with what torch allocates."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.api import Workload, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.workloads.decoding import repeated

FORWARD, BOTH, STEP, TOTAL = WORKLOADS = tuple(Workload)[:4]
METHODS: dict[str, Any] = {
    "moba": import_module("attnbench_impls.blocks.moba").MobaAttention,
    "nsa": import_module("attnbench_impls.blocks.nsa").NsaAttention,
}
SIZES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("moba", {"N": 1024}, {}),
    ("moba", {"N": 3000, "B": 2}, {}),
    ("moba", {"N": 2048, "dtype": "float64"}, {"block": 64}),
    ("moba", {"N": 1000, "M": 32}, {"block": 64, "topk": 2}),
    ("nsa", {"N": 1024}, {}),
    ("nsa", {"N": 2500}, {}),
    ("nsa", {"N": 1500, "kv_heads": 1, "H": 8}, {"selected": 8, "window": 128}),
    ("nsa", {"N": 1000, "M": 32, "dtype": "float64"}, {"block": 32}),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def problem_of(**shape: Any) -> Problem:
    return Problem(**{"B": 1, "H": 4, "D": 64, "causal": True, **shape})


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize(("name", "shape", "params"), SIZES, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str,
    shape: dict[str, Any],
    params: dict[str, Any],
    workload: Workload,
    inputs_of: Any,
    gradient_of: Any,
    evaluate: Any,
) -> None:
    method = METHODS[name](problem_of(**shape), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize(
    ("name", "shape", "params"),
    [
        ("moba", {"N": 1500, "B": 2}, {}),
        ("moba", {"N": 4096, "M": 32}, {"block": 64, "topk": 9}),
        ("nsa", {"N": 4096}, {}),
        ("nsa", {"N": 2100, "H": 16, "kv_heads": 2, "B": 2}, {"window": 100}),
        ("nsa", {"N": 1000, "M": 32, "dtype": "float64"}, {"block": 32}),
    ],
)
def test_a_step_allocates_what_its_cost_says(name: str, shape: dict[str, Any], params: dict[str, Any], inputs_of: Any) -> None:
    p = problem_of(**shape)
    method = METHODS[name](p, **params)
    inputs = [x.detach() for x in inputs_of(METHODS[name](p.model_copy(update={"B": 1}), **params))]
    _, state = method.prefill(*(x[:, :, :-1] for x in inputs), capacity=p.N)
    state, token = repeated(state, p.B), [x[:, :, -1:].repeat(p.B, *(1 for _ in x.shape[1:])) for x in inputs]
    method.step(*token, state=state)
    peak = torch_profiler_peak(lambda: method.step(*token, state=state)).bytes
    cost = METHODS[name].cost
    assert peak == pytest.approx(cost(p, params, STEP).peak_bytes, rel=0.1)
    more = cost(p, params, TOTAL).peak_bytes - cost(p, params, STEP).peak_bytes
    assert more == method.state_bytes(state)


@pytest.mark.parametrize("name", METHODS)
def test_memory_grows_with_the_length(name: str) -> None:
    for workload in (FORWARD, BOTH):
        short, long = (METHODS[name].cost(problem_of(N=N), {}, workload).peak_bytes for N in (2**14, 2**16))
        assert 3 < long / short < 4.2


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("N", [1, 255, 256, 257, 5000])
def test_pairs_are_counted_as_the_reference_sees_them(name: str, N: int) -> None:
    cost = METHODS[name].cost
    p = problem_of(N=N, B=1, H=1, D=1, M=1)
    i = torch.arange(N)
    if name == "moba":
        kept = (i % 256 + 1) + 256 * (i // 256).clamp(max=3)
        exact = int((2 * (i // 256) + 4 * kept).sum())
    else:
        kept = (i % 64 + 1) + 64 * (i // 64).clamp(max=15) + (i + 1) // 64 + (i + 1).clamp(max=512)
        exact = int((4 * kept).sum())
    assert cost(p, {}, FORWARD).exact_flops == exact
    assert cost(p, {}, TOTAL).exact_flops == exact
    assert cost(p, {}, STEP).exact_flops == exact - (
        cost(p.model_copy(update={"N": N - 1}), {}, TOTAL).exact_flops if N > 1 else 0
    )


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", METHODS)
def test_no_less_is_executed_than_is_needed_and_far_less_than_by_all_pairs(name: str, workload: Workload) -> None:
    p = problem_of(N=2**16)
    cost = METHODS[name].cost(p, {}, workload)
    assert cost.nominal_flops == nominal_flops(p, workload)
    assert cost.exact_flops <= cost.executed_flops < cost.nominal_flops / 8
    assert cost.traffic_bytes > 0


@pytest.mark.parametrize("name", METHODS)
def test_heads_that_share_keys_read_them_once(name: str) -> None:
    if name == "moba":
        return
    few, many = (METHODS[name].cost(problem_of(N=4096, H=8, kv_heads=K), {}, STEP).traffic_bytes for K in (1, 8))
    assert 6 < many / few < 8
