"""What is scored and not timed: the metrics by which, what they mean, and how their values are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score
from attnbench.analyze.metric import compared_by
from attnbench.report.questions.fidelity import notes
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import (
    BATCH_DIFFERENCE,
    COSINE,
    DETERMINISTIC_COST,
    DRIFT,
    GRADIENT_ROUNDING,
    MASS_RECALL,
    OUTPUT_ERROR,
    ROUNDING,
    RUN_DIFFERENCE,
    STEP_DIFFERENCE,
    TOP_OVERLAP,
    WORST_ROW,
)
from attnbench.schema.units import three_digits

_ROUNDING = 1e-4
"""Errors below are of rounding alone, and written by powers of ten."""
_Note = Callable[[Sequence[CellSummary]], str]


@dataclass(frozen=True)
class ScoreMetric:
    """One of them; as a share it is written in per cent."""

    key: str
    name: str
    note: _Note
    """What it is."""
    is_share: bool = False
    is_loss: bool = False
    ranged: bool = True
    """Whether its range over the replicates is written."""
    is_rounding: bool = False
    """Whether errors of 1e-7 are what it is there for; of another one they are written with one digit, and no range."""

    def text(self, cell: CellSummary) -> str:
        """`63.1% [62.8, 63.5]` or `0.512 [0.508, 0.516]`; the status of a failure; nothing where none was recorded."""
        found = score(cell, self.key)
        if found is None:
            return "" if cell.ok else short(cell.status)
        says_something = self.is_rounding or not 0 < abs(found.value) < _ROUNDING
        ends = [self._written(end) for end in (found.interval.low, found.interval.high)]
        ranged = f" [{', '.join(ends)}]" if self.ranged and cell.replicates > 1 and says_something else ""
        return f"{self._written(found.value)}{'%' if self.is_share else ''}{ranged}"

    def _written(self, value: float) -> str:
        scaled = 100 * value if self.is_share else value
        # in a form in which no row of zeros has to be counted
        return f"{scaled:.{int(self.is_rounding)}e}" if 0 < abs(scaled) < _ROUNDING else three_digits(scaled)


RECALL = ScoreMetric(MASS_RECALL, "mass recall", notes.recall_note, is_share=True)
OVERLAP = ScoreMetric(TOP_OVERLAP, "top overlap", notes.overlap_note, is_share=True)
ANGLE = ScoreMetric(COSINE, "cosine", notes.cosine_note)
ERROR = ScoreMetric(OUTPUT_ERROR, "output error", notes.error_note, is_loss=True)
_rounding = partial(ScoreMetric, is_loss=True, is_rounding=True)
FIDELITY = (RECALL, OVERLAP, ANGLE, ERROR)
NUMERICS = (
    _rounding(ROUNDING, "rounding", notes.rounding_note),
    _rounding(WORST_ROW, "worst row", notes.worst_note, ranged=False),
    _rounding(GRADIENT_ROUNDING, "gradient rounding", notes.gradient_note),
    _rounding(DRIFT, "late over early", notes.drift_note, ranged=False),
    _rounding(BATCH_DIFFERENCE, "alone or in a batch", notes.batch_note, ranged=False),
    _rounding(STEP_DIFFERENCE, "by steps or at once", notes.step_note, ranged=False),
    _rounding(RUN_DIFFERENCE, "run to run", notes.run_note, ranged=False),
    _rounding(DETERMINISTIC_COST, "deterministic, time", notes.deterministic_note),
)
_OF = {Workload.FIDELITY: FIDELITY, Workload.NUMERICS: NUMERICS}


def metrics(workload: Workload, summaries: Sequence[CellSummary]) -> tuple[ScoreMetric, ...]:
    """Those that were recorded, and in any case the one by which methods are compared."""
    main = compared_by(workload)
    return tuple(each for each in _OF[workload] if each.key == main or any(score(s, each.key) for s in summaries))


def main_metric(workload: Workload) -> ScoreMetric:
    """The one by which methods are compared."""
    return next(each for each in _OF[workload] if each.key == compared_by(workload))
