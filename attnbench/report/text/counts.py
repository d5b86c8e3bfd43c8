"""Cells and other things, counted in words."""

from collections.abc import Sequence

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.schema.outcome import Status

UNFINISHED = frozenset({NOT_RUN, Status.INTERRUPTED.value})
"""Of a cell that nothing is known of: it neither ran nor failed."""


def cells(summaries: Sequence[CellSummary]) -> str:
    """`48 cells: 40 ok, 6 failed, 2 not run`."""
    ok = sum(each.ok for each in summaries)
    not_run = sum(each.status in UNFINISHED for each in summaries)
    counts = {"ok": ok, "failed": len(summaries) - ok - not_run, "not run": not_run}
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{counted(len(summaries), 'cell')}: {words}" if words else "no cell"


def counted(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
