"""A slow-down made on purpose: the same values, late by the share that was asked for."""

import time
from pathlib import Path

import pytest
import torch

from attnbench import registry
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.problem import Problem
from attnbench.workloads.check import check, check_cells
from attnbench.workloads.slowed import Slowed
from attnbench.workloads.timing import measure_time
from tests.workloads.conftest import measured, prospect_of

NAME = "attnbench.workloads.slowed:Slowed"
PROBLEM = Problem(N=64, H=2, D=16)


def cell(method: str = "softmax.sdpa", share: float = 0.5, device: str = "cpu", **problem: object) -> Cell:
    shape = {**PROBLEM.model_dump(), **problem}
    return Cell(method=NAME, params={"method": method, "share": share}, problem=Problem(**shape), device=device)


class Clock:
    """Time that passes by a microsecond whenever it is read, and by what a call is said to take."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_call_takes_as_much_longer_as_was_asked_for(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    method = Slowed(PROBLEM, method="softmax.sdpa", share=share)
    inner = method.inner.forward

    def slow(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        clock.now += 5e-3
        return inner(q, k, v)

    method.inner.forward = slow  # type: ignore[method-assign]
    begin = clock.now
    method(*Slowed.inputs(PROBLEM, torch.Generator().manual_seed(0)))
    assert clock.now - begin == pytest.approx(5e-3 * (1 + share), abs=1e-5)


def test_values_cost_and_check_are_those_of_the_method_inside_whose_kernel_the_row_tells(plugins: Path) -> None:
    inputs = Slowed.inputs(PROBLEM, torch.Generator().manual_seed(0))
    slowed, plain = Slowed(PROBLEM, method="softmax.sdpa", share=0.1), registry.build("softmax.sdpa", PROBLEM)
    torch.testing.assert_close(slowed(*inputs), plain(*inputs), rtol=0, atol=0)
    torch.testing.assert_close(slowed.reference(*inputs), plain.reference(*inputs), rtol=0, atol=0)
    assert prospect_of(cell()).cost == prospect_of(Cell(method="softmax.sdpa", problem=PROBLEM)).cost
    assert len([measured(check(Job(cell=small))) for small in check_cells(Slowed, cell())]) == 2
    assert measured(measure_time(Job(cell=cell(), limits=Limits(seconds=0.05)))).facts["backend"] == "flash_cpu"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (cell(device="cuda:0"), "slows no GPU"),
        (cell().model_copy(update={"workload": Workload.FORWARD_BACKWARD}), "forward only"),
        (cell("lsh.reformer", causal=True), "in its own way"),
        (cell("linear.chunked"), "causal"),
        (Cell(method=NAME, problem=PROBLEM), "Slowed takes method and share"),
    ],
)
def test_what_it_cannot_slow_by_that_share_it_refuses(refused: Cell, why: str) -> None:
    assert why in str(prospect_of(refused).why_not)
