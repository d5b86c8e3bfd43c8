"""Statuses in the few letters that fit into a table, why they came, in words, and how many cells have them."""

from collections.abc import Mapping, Sequence

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.analyze.points import UNFINISHED
from attnbench.report.text.names import one_line, shorten
from attnbench.schema.outcome import Status
from attnbench.schema.units import counted, length

_SHORT = {
    Status.OOM_DEVICE.value: "OOM",
    Status.OOM_HOST.value: "OOM",
    Status.INCORRECT.value: "wrong",
    NOT_RUN: "not run",
}
SCARCE: dict[str, str] = {Status.OOM_HOST: "memory", Status.OOM_DEVICE: "memory", Status.BUDGET: "time", Status.TIMEOUT: "time"}
"""What there was too little of, by the status that a search ended with."""
_LONGEST_REASON = 160


def short(status: str) -> str:
    """Return OOM, wrong or not run; the others are short already."""
    return _SHORT.get(status, status)


def reasons(summaries: Sequence[CellSummary], names: Mapping[str, str]) -> list[str]:
    """Write `OOM: softmax.naive at 16k: out of memory ...`: a line for each status and reason, over all methods and lengths.

    Methods of the same lengths share them: `a, b at 8k to 64k`; where a length between is left out, they are a list. `names`
    are what methods are called, by label.
    """
    found: dict[tuple[str, str], dict[str, set[int]]] = {}
    for summary in summaries:
        if not summary.ok:
            methods = found.setdefault((summary.status, one_line(summary.reason)), {})
            methods.setdefault(summary.cell.label, set()).add(summary.cell.problem.N)
    known = sorted({s.cell.problem.N for s in summaries})
    lines = []
    for (status, why), methods in found.items():
        by_lengths: dict[str, list[str]] = {}
        for label, at in methods.items():
            first, last = min(at), max(at)
            unbroken = len(at) > 2 and known[known.index(first) : known.index(last) + 1] == sorted(at)
            span = f"{length(first)} to {length(last)}" if unbroken else ", ".join(map(length, sorted(at)))
            by_lengths.setdefault(span, []).append(names[label])
        where = "; ".join(f"{', '.join(labels)} at {span}" for span, labels in by_lengths.items())
        lines.append(f"{short(status)}: {where}: {shorten(why, _LONGEST_REASON)}")
    return lines


def cells(summaries: Sequence[CellSummary]) -> str:
    """Write `48 cells: 40 ok, 6 failed, 2 not run`."""
    ok = sum(each.ok for each in summaries)
    not_run = sum(each.status in UNFINISHED for each in summaries)
    counts = {"ok": ok, "failed": len(summaries) - ok - not_run, "not run": not_run}
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{counted(len(summaries), 'cell')}: {words}" if words else "no cell"
