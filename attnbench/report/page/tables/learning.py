"""The curves of training as tables: what a chart shows, for those who do not see it, search or print it."""

from collections.abc import Callable, Iterator

from attnbench.analyze.learning_curve import Moment, learning_curve
from attnbench.analyze.sections import Section
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import by_length, where
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import CURVE, CURVE_ACCURACY
from attnbench.schema.units import three_digits

_NAMES = {CURVE[2]: "Held-out loss, nats", CURVE_ACCURACY: "Accuracy, held out"}


def learning_tables(findings: Findings, section: Section) -> list[Table]:
    """Methods by updates, medians over the seeds: of the loss and the accuracy, as far as they were recorded."""
    if section.workload is not Workload.TRAIN:
        return []
    return [table for part in by_length(section) for table in _tables(findings, part)]


def _tables(findings: Findings, section: Section) -> Iterator[Table]:
    for name, words in _NAMES.items():
        found = {cell.cell.label: learning_curve(cell, name) for cell in section.summaries}
        curves = {label: {moment.update: moment for moment in curve} for label, curve in found.items() if curve}
        updates = sorted({update for curve in curves.values() for update in curve})
        if curves:
            entry = _share if name == CURVE_ACCURACY else _loss
            rows = tuple((f"{update:,.0f}", *(_entry(curve, update, entry) for curve in curves.values())) for update in updates)
            heads = ("updates", *(findings.names[label] for label in curves))
            yield Table(f"{words}: {where(section)}", heads, rows)


def _entry(curve: dict[float, Moment], update: float, words: Callable[[float], str]) -> str:
    return words(curve[update].middle) if update in curve else ""


def _loss(value: float) -> str:
    return three_digits(value)


def _share(value: float) -> str:
    return f"{three_digits(100 * value)}%"
