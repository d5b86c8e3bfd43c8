"""The summary: one row per method, compared at the longest length that most of them reach."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.scaling import time_exponent
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import speedup, strongest_exact
from attnbench.analyze.stops import longest, stops
from attnbench.report.conditions import memory_notes, notes
from attnbench.report.findings import Findings
from attnbench.report.numbers import exponent, factor, margin
from attnbench.report.statuses import short, stop_text
from attnbench.report.table import Table
from attnbench.schema.units import bytes_, length, seconds

_EXPONENT = "N^x: least squares of log time per sample on log N over the upper half of a method's lengths, at least three"


def summary_table(findings: Findings, section: Section) -> Table:
    """Text of one section; where nothing was measured, the rows say what stopped each method."""
    N = section.common_length
    baseline = strongest_exact(section.ok_at(N).values()) if N else None
    rows = [_row(findings, section, label, baseline) for label in section.series]
    where = f"at {length(N)}" if N else "(nothing measured)"
    over = f"speed-up over {findings.names[baseline.cell.label]} {where}" if baseline else "speed-up (no exact softmax ran)"
    headers = ("method", "tier", "longest N", "time grows as", f"time per sample {where}", over, f"memory per sample {where}")
    return Table(
        title=f"Summary: {section.title}",
        headers=(*headers, "stopped by"),
        rows=tuple(rows),
        bold=_fastest(section, N),
        notes=(*_explained(findings, section, baseline), *notes(findings, section.summaries)),
    )


def _row(findings: Findings, section: Section, label: str, baseline: CellSummary | None) -> tuple[str, ...]:
    series, N = section.series[label], section.common_length
    cell = section.at(label, N) if N else None
    last = longest(series)
    return (
        findings.names[label],
        findings.tier(series[0]),
        length(last.cell.problem.N) if last else "none",
        exponent(time_exponent(series)),
        _time(cell),
        _speedup(baseline, cell),
        _memory(findings, cell),
        _stopped(series),
    )


def _time(cell: CellSummary | None) -> str:
    if cell is None:
        return ""
    if cell.median is None or cell.interval is None:
        return short(cell.status)
    return seconds(cell.median * cell.per_sample) + margin(cell.median, cell.interval)


def _speedup(baseline: CellSummary | None, cell: CellSummary | None) -> str:
    if baseline is None or cell is None:
        return ""
    return "1 (baseline)" if cell is baseline else factor(speedup(baseline, cell))


def _memory(findings: Findings, cell: CellSummary | None) -> str:
    if cell is None or not cell.ok:
        return ""
    value = findings.counter.per_sample(cell) if findings.counter else None
    return "n/a" if value is None else bytes_(value)


def _stopped(series: Sequence[CellSummary]) -> str:
    return "; ".join(stop_text(stop, series) for stop in stops(series))


def _fastest(section: Section, N: int | None) -> frozenset[tuple[int, int]]:
    return frozenset((row, 4) for row, label in enumerate(section.series) if N and label in fastest(section, N))


def _explained(findings: Findings, section: Section, baseline: CellSummary | None) -> list[str]:
    lines = [f"{_EXPONENT}. Bold: fastest, and whatever overlaps with it."]
    if N := section.common_length:
        lines.append(f"Compared at {length(N)}: the longest of the lengths at which the most methods have numbers.")
    if baseline:
        lines.append(f"Speed-up: of {findings.names[baseline.cell.label]}, the fastest exact softmax attention at that length.")
    return [*lines, *memory_notes(findings, section.summaries)]
