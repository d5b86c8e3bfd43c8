"""How far rows are off, and how far they may be."""

import pytest
import torch

from attnbench.schema.cell import Cell, Precision, Workload
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.deviation import deviations, excused, tolerance


def test_each_row_is_off_as_a_share_of_its_own_length() -> None:
    want = torch.ones(2, 64) * torch.tensor([[100.0], [0.01]])
    off = deviations(want + 0.01, want)
    assert off.tolist() == pytest.approx([1e-4, 1.0], rel=1e-3)


def test_what_is_no_number_or_not_the_nothing_that_is_right_is_infinitely_far() -> None:
    want = torch.ones(3, 64)
    want[1:] = 0
    got = want.clone()
    got[0, 5], got[1, 0] = torch.nan, 1e-30
    assert deviations(got, want).tolist() == [torch.inf, torch.inf, 0]


def test_narrow_rows_are_judged_by_the_length_of_several() -> None:
    want = torch.tensor([[1.0], [1e-6], [1.0], [1.0]])
    assert float(deviations(want + 1e-6, want).max()) < 1e-5


def test_a_definition_that_is_off_itself_excuses_four_times_as_much_but_never_half() -> None:
    bounds = excused(0.01, torch.tensor([0.001, 0.1, 0.4, torch.nan, torch.inf]))
    assert bounds.tolist() == pytest.approx([0.01, 0.4, 0.5, 0.01, 0.01])


@pytest.mark.parametrize(
    ("dtype", "precision", "allowed"),
    [
        (DType.FLOAT64, Precision.HIGHEST, 1e-9),
        (DType.FLOAT32, Precision.HIGHEST, 5e-5),
        (DType.FLOAT32, Precision.HIGH, 1e-2),
        (DType.BFLOAT16, Precision.MEDIUM, 3e-2),
    ],
)
def test_rounder_numbers_may_be_further_off(dtype: DType, precision: Precision, allowed: float) -> None:
    cell = Cell(method="m", problem=Problem(N=8, dtype=dtype), workload=Workload.FORWARD, matmul_precision=precision)
    assert tolerance(cell) == allowed
