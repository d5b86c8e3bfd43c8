"""What fidelity is measured by: the names of its metrics, what they mean, and how their values are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import Score, score
from attnbench.report.fidelity_notes import cosine_note, error_note, overlap_note, recall_note
from attnbench.report.statuses import short
from attnbench.schema.outcome import COSINE, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP
from attnbench.schema.units import three_digits

_ROUNDING = 1e-4


@dataclass(frozen=True)
class FidelityMetric:
    """One of them; as a share it is written in per cent."""

    key: str
    name: str
    note: Callable[[Sequence[CellSummary]], str]
    """What it is."""
    is_share: bool = False
    is_loss: bool = False

    def text(self, cell: CellSummary) -> str:
        """`63.1% [62.8, 63.5]` or `0.512 [0.508, 0.516]`; the status of a failure; nothing where none was recorded."""
        found = score(cell, self.key)
        if found is None:
            return "" if cell.ok else short(cell.status)
        return self._written(found, ranged=cell.replicates > 1)

    def _written(self, found: Score, *, ranged: bool) -> str:
        if 0 < abs(found.value) < _ROUNDING:
            # of rounding, whose range says nothing; in a form in which no row of zeros has to be counted
            return f"{found.value:.0e}"
        scale, unit = (100.0, "%") if self.is_share else (1.0, "")
        value, low, high = (three_digits(scale * x) for x in (found.value, found.interval.low, found.interval.high))
        return f"{value}{unit} [{low}, {high}]" if ranged else f"{value}{unit}"


RECALL = FidelityMetric(MASS_RECALL, "mass recall", recall_note, is_share=True)
OVERLAP = FidelityMetric(TOP_OVERLAP, "top overlap", overlap_note, is_share=True)
ANGLE = FidelityMetric(COSINE, "cosine", cosine_note)
ERROR = FidelityMetric(OUTPUT_ERROR, "output error", error_note, is_loss=True)


def metrics(summaries: Sequence[CellSummary]) -> tuple[FidelityMetric, ...]:
    """Recall and error, and between them those that were recorded."""
    between = (each for each in (OVERLAP, ANGLE) if any(score(s, each.key) for s in summaries))
    return RECALL, *between, ERROR
