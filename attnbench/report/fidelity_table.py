"""Fidelity as tables: a summary at one length, and each metric by lengths."""

from collections.abc import Callable

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import Score, score, share_of_dense
from attnbench.analyze.sections import Section
from attnbench.analyze.stops import longest, stops
from attnbench.report.fidelity_notes import error_note, fidelity_notes, recall_note
from attnbench.report.findings import Findings
from attnbench.report.statuses import short, stop_text
from attnbench.report.table import Table
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR
from attnbench.schema.units import length, three_digits

_ROUNDING = 1e-4
_Text = Callable[[CellSummary], str]


def fidelity_summary(findings: Findings, section: Section) -> Table:
    """One row per method, at the longest length that most of them reach; what it keeps, and at which cost."""
    N = section.common_length
    where = f"at {length(N)}" if N else "(nothing measured)"
    columns = (f"mass recall {where}", f"output error {where}", f"FLOPs of dense {where}")
    rows = [
        (findings.names[label], findings.tier(series[0]), *_reached(findings, section, label, N), _stopped(series))
        for label, series in section.series.items()
    ]
    cost = "FLOPs of dense: those that the definition needs, hashing and the like included, over those of dense attention."
    return Table(
        title=f"Summary: {section.title}",
        headers=("method", "tier", "longest N", *columns, "stopped by"),
        rows=tuple(rows),
        bold=_best(section, N, MASS_RECALL, 3) if N else frozenset(),
        notes=(recall_note(section.summaries), error_note(), cost, *fidelity_notes(findings, section.summaries)),
    )


def fidelity_tables(findings: Findings, section: Section) -> list[Table]:
    """Methods by lengths: mass recall, and the output's error."""
    recall = _by_length(findings, section, MASS_RECALL, recall_text, "Mass recall")
    return [recall, _by_length(findings, section, OUTPUT_ERROR, error_text, "Output error")]


def recall_text(cell: CellSummary) -> str:
    """`63.1% [62.8, 63.5]`; the status of a cell without."""
    return _text(cell, score(cell, MASS_RECALL), 100.0, "%")


def error_text(cell: CellSummary) -> str:
    """`0.512 [0.508, 0.516]`; the status of a cell without."""
    return _text(cell, score(cell, OUTPUT_ERROR), 1.0, "")


def _text(cell: CellSummary, found: Score | None, scale: float, unit: str) -> str:
    if found is None:
        return short(cell.status)
    low, high = (_digits(scale * end) for end in (found.interval.low, found.interval.high))
    value = f"{_digits(scale * found.value)}{unit}"
    return value if cell.replicates < 2 else f"{value} [{low}, {high}]"


def _digits(value: float) -> str:
    """Three; in exponent form where an error is that of rounding, so that no row of zeros has to be counted."""
    return f"{value:.2e}" if 0 < abs(value) < _ROUNDING else three_digits(value)


def _reached(findings: Findings, section: Section, label: str, N: int | None) -> tuple[str, ...]:
    last, cell = longest(section.series[label]), section.at(label, N) if N else None
    reached = length(last.cell.problem.N) if last else "none"
    if cell is None:
        return reached, "", "", ""
    share = share_of_dense(cell, findings.run) if cell.ok else None
    return reached, recall_text(cell), error_text(cell), "" if share is None else f"{three_digits(100 * share)}%"


def _stopped(series: tuple[CellSummary, ...]) -> str:
    return "; ".join(stop_text(stop, series) for stop in stops(series))


def _by_length(findings: Findings, section: Section, metric: str, text: _Text, title: str) -> Table:
    def entry(label: str, N: int) -> str:
        cell = section.at(label, N)
        return "" if cell is None else text(cell)

    rows = [
        (findings.names[label], findings.tier(series[0]), *(entry(label, N) for N in section.lengths))
        for label, series in section.series.items()
    ]
    about = recall_note(section.summaries) if metric == MASS_RECALL else error_note()
    return Table(
        title=f"{title}: {section.title}",
        headers=("method", "tier", *(f"N={length(N)}" for N in section.lengths)),
        rows=tuple(rows),
        bold=frozenset(place for column, N in enumerate(section.lengths, 2) for place in _best(section, N, metric, column)),
        notes=(about, "Bold: best at its length, and whatever overlaps with it.", *fidelity_notes(findings, section.summaries)),
    )


def _best(section: Section, N: int, metric: str, column: int) -> frozenset[tuple[int, int]]:
    """Rows of most recall or least error, and those whose range overlaps with theirs."""
    found = {label: s for label, cell in section.ok_at(N).items() if (s := score(cell, metric)) is not None}
    pick = max if metric == MASS_RECALL else min
    best = pick(found.values(), key=lambda s: s.value, default=None)
    return frozenset(
        (row, column)
        for row, label in enumerate(section.series)
        if best is not None and label in found and found[label].interval.overlaps(best.interval)
    )
