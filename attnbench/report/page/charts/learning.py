"""The curves of training for the page: what the held-out sequences said on the way, as columns."""

from collections.abc import Iterator
from typing import Any

from attnbench.analyze.learning_curve import Moment, learning_curve
from attnbench.report.page.board import Board, Place
from attnbench.report.page.charts.rounding import all_rounded, rounded
from attnbench.report.questions.learning.words import chance
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import CURVE, CURVE_ACCURACY

_Json = dict[str, Any]


def learning(board: Board) -> list[_Json]:
    """By cell that was trained: of the loss and the accuracy updates and seconds, medians, ends and chance."""
    return [found for cell, place in enumerate(board.places) for found in _of(cell, place)]


def _of(cell: int, place: Place) -> Iterator[_Json]:
    summary = place.summary
    if summary.cell.workload is not Workload.TRAIN:
        return
    loss, accuracy = learning_curve(summary, CURVE[2]), learning_curve(summary, CURVE_ACCURACY)
    if loss:
        right = {"accuracy": _columns(accuracy, chance(summary, "accuracy"))} if accuracy else {}
        yield {"cell": cell, "loss": _columns(loss, chance(summary, "loss")), **right}


def _columns(curve: tuple[Moment, ...], guessed: float | None) -> _Json:
    """Medians over the seeds, and the range that they span."""
    return {
        "update": all_rounded(moment.update for moment in curve),
        "seconds": all_rounded(moment.seconds for moment in curve),
        "value": all_rounded(moment.middle for moment in curve),
        "low": all_rounded(moment.low for moment in curve),
        "high": all_rounded(moment.high for moment in curve),
        "chance": rounded(guessed),
    }
