"""Methods without a trained model, for the legend of a figure: their names with what kept them from one."""

from collections.abc import Callable, Sequence
from functools import partial

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.drawing.legend import Entry
from attnbench.report.drawing.style import Look
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.curves.panel import crossed
from attnbench.report.questions.learning.words import where
from attnbench.report.text.names import drawable, shorten
from attnbench.report.text.statuses import short

_REASON = 60


def failed_entries(
    findings: Findings, groups: Sequence[Section], looks: dict[str, Look], lacks: Callable[[CellSummary], str]
) -> list[Entry]:
    """One for each method that failed in at least one of these sections of one length; `lacks` says what an ok cell lacks."""
    found: dict[str, list[tuple[Section, CellSummary]]] = {}
    for group in groups:
        for cell in group.summaries:
            found.setdefault(cell.cell.label, []).append((group, cell))
    entries: list[Entry] = []
    for label, cells in found.items():
        if why := _why(cells, lacks):
            entries.append((partial(crossed, looks[label].color), f"{findings.plot_names[label]}  {drawable(why)}"))
    return entries


def _why(cells: Sequence[tuple[Section, CellSummary]], lacks: Callable[[CellSummary], str]) -> str:
    """Where the method failed in some sections only, which."""
    every = [
        (group, lacks(cell) if cell.ok else f"{short(cell.status)}: {shorten(cell.reason, _REASON)}") for group, cell in cells
    ]
    failed = [(group, words) for group, words in every if words]
    if len(failed) == len(cells):
        return "; ".join(dict.fromkeys(words for _, words in failed))
    return "; ".join(f"{words} ({where(group)})" for group, words in failed)
