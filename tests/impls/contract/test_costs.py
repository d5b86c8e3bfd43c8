"""The formulas agree with the algorithms: work with what is needed, steps with a sequence, peaks with what torch allocates."""

import math
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest

from attnbench import registry
from attnbench.api import Cell, Cost, Problem, Workload, io_bytes, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.workloads.decoding import one_step, sequence
from attnbench.workloads.setting import whole
from tests.impls.contract.method import BOTH, FORWARD, STEP, TOTAL, Params, Size
from tests.impls.contract.subjects import NAMES, VARIANTS, Variant, each, marks_of

HERE = sorted({variant.name for variant in VARIANTS})
COUNTED = ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes")


def problems(name: str, workload: Workload) -> Iterator[Problem]:
    """What it takes, on some device, of a token and of some."""
    shapes: tuple[Params, ...] = ({}, {"kv_heads": 2, "H": 32}, {"M": 16}, {"padding": 0.5})
    for N, causal, shape in product((1, 256), (False, True), shapes):
        asked = (
            Problem(**{"B": 2, "N": N, "D": 32, "causal": causal, "dtype": dtype, **shape}) for dtype in ("float32", "bfloat16")
        )
        taken = (p for p in asked if any(Variant(name).takes(p, workload, device) for device in ("cpu", "cuda")))
        yield from islice(taken, 1)


@pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
@pytest.mark.parametrize("name", NAMES)
def test_all_count_nominally_alike_and_execute_and_move_what_is_needed(name: str, workload: Workload) -> None:
    kind = registry.load(name)
    # one tensor for queries and keys is moved once
    share = 0.64 if kind.projections(Problem(N=8))[0].name == "qk" else 1.0
    for problem in problems(name, workload):
        cost = kind.cost(problem, {}, workload)
        assert cost.nominal_flops == nominal_flops(problem, workload)
        # its kernel multiplies queries with keys, which of a few hundred tokens is less work than their expansions
        assert cost.executed_flops >= cost.exact_flops >= 0 or name == "linear.based_fla"
        assert cost.traffic_bytes >= share * io_bytes(problem, workload)
        assert cost.peak_bytes > 0


def has_steps_of_one_sequence(variant: Variant) -> bool:
    """A stride that is not given follows from the length: the steps of shorter sequences are those of other patterns."""
    if not variant.kind.decodes or variant.causal(64, STEP) is None:
        return False
    spans = {variant.kind.span(Problem(N=n, causal=True), variant.params) for n in (8, 41, 512)}
    return len(spans) == 1 or not variant.name.startswith("sparse.")


@pytest.mark.parametrize("variant", each(has_steps_of_one_sequence))
def test_a_whole_sequence_costs_the_sum_of_its_steps(variant: Variant) -> None:
    def cost(workload: Workload, N: int) -> Cost:
        return variant.kind.cost(Problem(B=2, H=4, N=N, D=8, M=6, causal=True), variant.params, workload)

    for N in (1, 3, 41):
        steps = [cost(STEP, n) for n in range(1, N + 1)]
        total = cost(TOTAL, N)
        for field in COUNTED:
            added, slack = sum(getattr(one, field) for one in steps), 0.0
            if field == "traffic_bytes" and variant.name.startswith("sparse."):
                # a cache with room for one token more is written no less; the last steps may keep a token that nobody will see
                slack = N * 2 * 2 * 4 * (8 + 6) * 4
            assert added <= getattr(total, field) * (1 + 1e-12)
            assert getattr(total, field) * (1 - 1e-12) <= added + slack


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("name", [name for name in NAMES if Variant(name).method.grows[0] < math.inf])
def test_work_and_memory_grow_with_the_length_no_faster_than_is_said(name: str, workload: Workload) -> None:
    def cost(N: int, causal: bool, dtype: str) -> Cost:
        return registry.load(name).cost(Problem(B=2, N=N, causal=causal, dtype=dtype), {}, workload)

    work, memory = Variant(name).method.grows
    for causal in (False, True):
        problem = Problem(B=2, N=4096, causal=causal, dtype="bfloat16" if "fla" in name else "float32")
        if any(Variant(name).takes(problem, workload, device) for device in ("cpu", "cuda")):
            short, long = (cost(N, causal, problem.dtype) for N in (4096, 16384))
            assert long.executed_flops <= 1.001 * work * short.executed_flops
            assert long.peak_bytes <= 1.001 * memory * short.peak_bytes


@pytest.mark.parametrize("name", [name for name in NAMES if Variant(name).method.steps_alike or Variant(name).method.sums])
def test_a_step_costs_the_same_wherever_it_is(name: str) -> None:
    near, far = (registry.load(name).cost(Problem(N=N, causal=True), {}, STEP) for N in (2**12, 2**20))
    assert (near.executed_flops, near.peak_bytes) == (far.executed_flops, far.peak_bytes)


def sizes(workloads: tuple[Workload, ...], regular: str, slow: str) -> list[Any]:
    """Of every method that runs here, as parameters of a test."""
    found = []
    for name in HERE:
        kind, method = registry.load(name), Variant(name).method
        if workloads[0].decodes and not kind.decodes:
            continue
        marked: list[tuple[Size, list[Any]]] = [(size, []) for size in getattr(method, regular)]
        marked += [(size, [pytest.mark.slow]) for size in getattr(method, slow)]
        for ((shape, params), marks), workload in product(marked, workloads):
            cell = cell_of(name, shape, params, workload)
            # without a backward there is none to measure, and a sequence from nothing has as many steps as tokens
            if cell is not None and not (workload is TOTAL and cell.problem.N > 140):
                about = f"{Variant(name, params)} {shape} {workload}"
                found.append(pytest.param(cell, id=about, marks=[*marks, *marks_of(kind)]))
    return found


def cell_of(name: str, shape: dict[str, Any], params: dict[str, Any], workload: Workload) -> Cell | None:
    """As the shape says, or causal where it says nothing and the method must be."""
    for causal in (shape["causal"],) if "causal" in shape else (workload.decodes, True):
        problem = Problem(**{"B": 1, "H": 4, "N": 1024, "D": 64, "causal": causal, **shape})
        if Variant(name, params).takes(problem, workload):
            return Cell(method=name, problem=problem, params=params, workload=workload)
    assert workload is BOTH, f"a size of {name} that it refuses: {shape}"
    return None


def assert_predicted(cell: Cell) -> None:
    setting = (one_step if cell.workload is STEP else sequence if cell.workload is TOTAL else whole)(cell, 0)
    setting.call()
    predicted = type(setting.method).cost(cell.problem, cell.params, cell.workload).peak_bytes
    assert torch_profiler_peak(setting.call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("cell", sizes((FORWARD, BOTH), "peaks", "slow_peaks"))
def test_the_predicted_peak_of_a_sequence_is_what_torch_allocates(cell: Cell) -> None:
    assert_predicted(cell)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("cell", sizes((STEP, TOTAL), "step_peaks", "slow_step_peaks"))
def test_the_predicted_peak_of_decoding_is_what_torch_allocates(cell: Cell) -> None:
    assert_predicted(cell)
