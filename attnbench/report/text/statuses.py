"""Statuses in the few letters that fit into a table, and why they came, in words."""

from collections.abc import Sequence

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.analyze.stops import Stop
from attnbench.report.text.names import one_line, shorten
from attnbench.schema.outcome import Status
from attnbench.schema.units import length

_SHORT = {
    Status.OOM_DEVICE.value: "OOM",
    Status.OOM_HOST.value: "OOM",
    Status.INCORRECT.value: "wrong",
    NOT_RUN: "not run",
}
_LONGEST_REASON = 160


def short(status: str) -> str:
    """OOM, wrong, not run; the others are short already."""
    return _SHORT.get(status, status)


def stop_text(stop: Stop, series: Sequence[CellSummary]) -> str:
    """`OOM at 16k`, or the status alone where it stands at every length."""
    everywhere = len(stop.lengths) == len(series)
    return short(stop.status) if everywhere else f"{short(stop.status)} at {length(stop.lengths[0])}"


def reasons(summaries: Sequence[CellSummary]) -> list[str]:
    """`OOM: softmax.naive at 16k: out of memory ...`; one line per status and reason, collapsed over methods and lengths."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for summary in summaries:
        if not summary.ok:
            methods = found.setdefault((summary.status, one_line(summary.reason)), {})
            methods.setdefault(summary.cell.label, []).append(summary.cell.problem.N)
    known = sorted({s.cell.problem.N for s in summaries})
    return [
        f"{short(status)}: {_where(methods, known)}: {shorten(why, _LONGEST_REASON)}"
        for (status, why), methods in found.items()
    ]


def _where(methods: dict[str, list[int]], known: list[int]) -> str:
    """Methods of the same lengths share them: `a and b at 16k, 32k`."""
    by_lengths: dict[str, list[str]] = {}
    for label, lengths in methods.items():
        by_lengths.setdefault(_span(sorted(set(lengths)), known), []).append(shorten(label, 60))
    return "; ".join(f"{', '.join(labels)} at {lengths}" for lengths, labels in by_lengths.items())


def _span(lengths: list[int], known: list[int]) -> str:
    """`8k to 64k` where no length between is left out, else a list."""
    first, last = known.index(lengths[0]), known.index(lengths[-1])
    if len(lengths) > 2 and known[first : last + 1] == lengths:
        return f"{length(lengths[0])} to {length(lengths[-1])}"
    return ", ".join(map(length, lengths))
