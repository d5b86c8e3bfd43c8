from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.compare import Comparison, Pair, Terms, compare
from attnbench.analyze.gate import Exit, exit_of, level_of, looks, unclear
from attnbench.analyze.verdict import LEVEL
from attnbench.schema.outcome import Status

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)


def judged(*pairs: tuple[CellSummary | None, CellSummary | None]) -> list[Comparison]:
    return compare([Pair(*pair) for pair in pairs], Terms(margin=0.05, paired=True))


def times(writer: "Writer", factor: float = 1.0, N: int = 1024) -> CellSummary:
    return writer.summary(writer.cell(N=N), [value * factor for value in STEADY])


def lost(writer: "Writer") -> CellSummary:
    cell = writer.cell()
    return writer.summary(cell, (), writer.failed(cell, Status.OOM_HOST))


def test_a_change_that_changes_nothing_passes(writer: "Writer") -> None:
    assert exit_of(judged((times(writer), times(writer, 1.001)))) is Exit.FINE


def test_one_slower_cell_is_a_regression_whatever_became_faster(writer: "Writer") -> None:
    pairs = judged((times(writer), times(writer, 1.2)), (times(writer, N=2048), times(writer, 0.5, N=2048)))
    assert exit_of(pairs) is Exit.REGRESSION


def test_a_cell_that_used_to_run_and_fails_is_lost(writer: "Writer") -> None:
    assert exit_of(judged((times(writer), lost(writer)))) is Exit.LOST


def test_a_cell_that_is_no_longer_planned_is_lost_too(writer: "Writer") -> None:
    assert exit_of(judged((times(writer), None), (times(writer, N=2048), times(writer, N=2048)))) is Exit.LOST


def test_a_proven_regression_is_said_before_lost_cells(writer: "Writer") -> None:
    pairs = judged((times(writer), lost(writer)), (times(writer, N=2048), times(writer, 1.3, N=2048)))
    assert exit_of(pairs) is Exit.REGRESSION


def test_what_cannot_be_told_is_unclear_and_can_be_asked_again(writer: "Writer") -> None:
    noisy = writer.summary(writer.cell(), [1.0, 1.4, 0.7, 1.2, 0.8])
    pairs = judged((times(writer), noisy), (times(writer, N=2048), times(writer, N=2048)))
    assert exit_of(pairs) is Exit.UNCLEAR
    assert unclear(pairs) == {noisy.cell.key}


def test_nothing_to_judge_is_not_fine(writer: "Writer") -> None:
    assert exit_of([]) is Exit.UNCLEAR
    assert exit_of(judged((None, times(writer)))) is Exit.UNCLEAR


@pytest.mark.parametrize(
    ("most", "want"), [(2, [2]), (5, [5]), (6, [6]), (10, [5, 10]), (20, [5, 10, 20]), (25, [5, 10, 25]), (40, [5, 10, 20, 40])]
)
def test_looks_double_up_to_the_most(most: int, want: list[int]) -> None:
    assert looks(most) == want


def test_all_looks_together_keep_to_the_level_of_one() -> None:
    assert level_of(3) * 3 == pytest.approx(LEVEL)
