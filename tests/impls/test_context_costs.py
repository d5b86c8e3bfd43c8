"""The costs of attentions with a reach of their own: sums of steps, tiles as they are computed, peaks as they are allocated."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, draw, io_bytes, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from tests.impls.conftest import few

FORWARD, BOTH, STEP, TOTAL = Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL
XL, SPAN = "context.transformer_xl", "context.adaptive_span"
SMALL: dict[str, dict[str, Any]] = {XL: {"segment": 16, "memory": 24}, SPAN: {"span": 12, "ramp": 5}}


def problem(**shape: Any) -> Problem:
    return Problem(**{"B": 1, "H": 2, "N": 1024, "D": 64, "causal": True, **shape})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Scratch of the fused kernel grows with the threads; one thread's is in the formula."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def call_of(method: Any, workload: Workload) -> Callable[[], object]:
    """One call of the workload, as it is measured."""
    p, generator = method.problem, torch.Generator().manual_seed(0)
    inputs = type(method).inputs(p, generator)
    token = tuple(x[:, :, :1].clone() for x in inputs)
    if workload is STEP:
        _, state = method.prefill(*(x[:, :, : p.N - 1] for x in inputs), capacity=p.N)
        return lambda: method.step(*token, state=state)
    if workload is TOTAL:
        return lambda: from_nothing(method, token)
    if workload is FORWARD:
        return lambda: method(*inputs)
    leaves = [*(x.requires_grad_() for x in inputs), *method.parameters()]
    g = draw(p, p.H, p.M, generator, method.layout)
    return lambda: torch.autograd.grad(method(*inputs), leaves, g)


def from_nothing(method: Any, token: tuple[torch.Tensor, ...]) -> object:
    o, state = method.prefill(*(x[:, :, :0] for x in token), capacity=method.problem.N)
    for _ in range(method.problem.N):
        o, state = method.step(*token, state=state)
    return o


def within_a_tenth(name: str, params: dict[str, Any], workload: Workload, **shape: Any) -> None:
    method = build(name, problem(**shape), **params)
    with torch.set_grad_enabled(workload is BOTH):
        call = call_of(method, workload)
        call()
        peak = torch_profiler_peak(call).bytes
    assert peak == pytest.approx(type(method).cost(method.problem, params, workload).peak_bytes, rel=0.1)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((XL, params) for params in ({"segment": 128}, {"segment": 64, "memory": 200}, {})),
        *((SPAN, params) for params in ({}, {"span": 40, "ramp": 8}, {"span": 40, "ramp": 8, "sees_itself": True})),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", few([{"B": 2, "M": 32, "N": 700}, {}, {"N": 1100, "dtype": "float64"}], 1), ids=str)
def test_the_predicted_peak_of_a_sequence_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
) -> None:
    within_a_tenth(name, params, workload, **shape)


@pytest.mark.parametrize("workload", [STEP, TOTAL])
@pytest.mark.parametrize(
    ("name", "params"), [(XL, {"segment": 32}), (XL, {"segment": 16, "memory": 40}), (SPAN, {"span": 40, "ramp": 8})], ids=str
)
@pytest.mark.parametrize("shape", few([{"N": 80, "M": 32}, {"N": 90}, {"N": 90, "dtype": "float64"}], 1), ids=str)
def test_the_predicted_peak_of_decoding_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
) -> None:
    within_a_tenth(name, params, workload, B=16, **shape)


@pytest.mark.parametrize("name", [XL, SPAN])
def test_a_whole_sequence_costs_the_sum_of_its_steps(name: str) -> None:
    steps = [load(name).cost(problem(N=n, M=32), SMALL[name], STEP) for n in range(1, 81)]
    total = load(name).cost(problem(N=80, M=32), SMALL[name], TOTAL)
    for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
        assert getattr(total, field) == pytest.approx(sum(getattr(step, field) for step in steps)), field


@pytest.mark.parametrize("shape", [{}, {"N": 77}, {"M": 32}, {"N": 1}], ids=str)
@pytest.mark.parametrize("workload", list(Workload))
@pytest.mark.parametrize("params", [False, True])
@pytest.mark.parametrize("name", [XL, SPAN])
def test_what_is_executed_is_at_least_what_is_needed(
    name: str, params: bool, workload: Workload, shape: dict[str, Any]
) -> None:
    found = load(name).cost(problem(**shape), SMALL[name] if params else {}, workload)
    assert found.nominal_flops == nominal_flops(problem(**shape), workload)
    # of one token there is nothing to see
    alone = name == SPAN and problem(**shape).N == 1
    assert found.executed_flops >= found.exact_flops >= (0 if alone else 1)
    assert found.traffic_bytes >= io_bytes(problem(**shape), workload)


@pytest.mark.parametrize("name", [XL, SPAN])
def test_work_and_memory_grow_with_the_length_and_no_faster(name: str) -> None:
    for workload in (FORWARD, BOTH):
        short, long = (load(name).cost(problem(N=n), {}, workload) for n in (2**13, 2**16))
        assert long.executed_flops <= 8.5 * short.executed_flops
        assert long.peak_bytes <= 8.5 * short.peak_bytes


def test_a_step_costs_the_same_wherever_it_is() -> None:
    for name in (XL, SPAN):
        near, far = (load(name).cost(problem(N=n), {}, STEP) for n in (2**12, 2**20))
        assert (near.executed_flops, near.peak_bytes) == (far.executed_flops, far.peak_bytes)


def test_the_tiles_of_segments_are_counted_as_they_are_computed() -> None:
    # 40 tokens: 3 segments of 16, windows of 16 + 24; positions have one distance more, and W_r comes once a token
    found = load(XL).cost(problem(N=40, D=8), SMALL[XL], FORWARD)
    assert found.executed_flops == 2 * 2 * (48 * 40 * 2 * 8 + 48 * 41 * 8 + 40 * 64)
    # keys of tokens 0 … 15, 16 … 31 with 16 before, 32 … 39 with 24 before
    pairs = 2 * 136 + 36 + 16 * 16 + 8 * 24
    assert found.exact_flops == 2 * 2 * (pairs * 3 * 8 + 40 * 64)


def test_each_head_is_computed_by_its_own_span() -> None:
    # z = 3, 6: 8 and 11 keys; 7 and 10 queries see all before them, then a shorter tile of 33 and 30
    p = problem(B=1, H=2, N=40, D=8)
    found = load(SPAN).cost(p, {"span": 6, "ramp": 5, "sees_itself": True}, FORWARD)
    tiles = [(7 * 7, 32 * 39 + 1 * 8), (10 * 10, 30 * 40)]
    assert found.executed_flops == 2 * 2 * 8 * sum(map(sum, tiles))
    assert found.exact_flops == 2 * 2 * 8 * (36 + 32 * 8 + 66 + 29 * 11)
    # without the token itself 7 and 10 keys, of 39 queries: 6 and 9, then a shorter tile of 1 more than 32 and 30
    found = load(SPAN).cost(p, {"span": 6, "ramp": 5}, FORWARD)
    tiles = [(6 * 6, 32 * 38 + 1 * 7), (9 * 9, 30 * 39)]
    assert found.executed_flops == 2 * 2 * 8 * sum(map(sum, tiles))
    assert found.exact_flops == 2 * 2 * 8 * (28 + 32 * 7 + 55 + 29 * 10)
