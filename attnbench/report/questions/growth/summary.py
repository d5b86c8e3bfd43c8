"""The summary: one row per method, compared at the longest length that most of them reach."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.roofline import roof_share
from attnbench.analyze.scaling import time_exponent
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baselines, speedup, without_cache
from attnbench.analyze.stops import longest, stops
from attnbench.report.conditions import memory_notes, notes, state_notes
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import exponent, factor, timed
from attnbench.report.text.per import per
from attnbench.report.text.statuses import short, stop_text
from attnbench.report.text.table import Table
from attnbench.schema.units import bytes_, length, three_digits

_EXPONENT = "on log N over the upper half of a method's lengths, at least three"
_OF_THE_ROOF = (
    "Of the roof: the least time that executed FLOPs and least traffic take at the speed of a large matrix product and a large "
    "copy, the highest measured on this machine, divided by the time."
)

_STRONGEST = "the fastest exact softmax attention at that length"
_UNCACHED = "which has no cache and attends the whole prefix again"


def summary_table(findings: Findings, section: Section) -> Table:
    """Text of one section; where nothing was measured, the rows say what stopped each method."""
    N = section.common_length
    bases = baselines(section.ok_at(N).values(), findings.run.suite.report.baselines) if N else []
    rows = [_row(findings, section, label, bases) for label in section.series]
    where, what = f"at {length(N)}" if N else "(nothing measured)", per(section.workload)
    over = [f"speed-up over {findings.names[base.cell.label]} {where}" for base in bases]
    over = over or [f"speed-up (no {'baseline' if findings.run.suite.report.baselines else 'exact softmax'} ran)"]
    memory = "state of one sequence" if section.workload.decodes else f"memory {what}"
    headers = ("method", "tier", "longest N", "time grows as", f"time {what} {where}", "of the roof", *over)
    return Table(
        title=f"Summary: {section.title}",
        headers=(*headers, f"{memory} {where}", "stopped by"),
        rows=tuple(rows),
        bold=_fastest(section, N),
        notes=(*_explained(findings, section, bases), *notes(findings, section.summaries)),
    )


def _row(findings: Findings, section: Section, label: str, bases: Sequence[CellSummary]) -> tuple[str, ...]:
    series, N = section.series[label], section.common_length
    cell = section.at(label, N) if N else None
    last = longest(series)
    return (
        findings.names[label],
        findings.tier(series[0]),
        length(last.cell.problem.N) if last else "none",
        exponent(time_exponent(series)),
        _time(cell),
        _roof(findings, cell),
        *([_speedup(base, cell) for base in bases] or [""]),
        _memory(findings.counter if not section.workload.decodes else STATE, cell),
        _stopped(series),
    )


def _time(cell: CellSummary | None) -> str:
    if cell is None:
        return ""
    return short(cell.status) if cell.time is None else timed(cell.time)


def _speedup(baseline: CellSummary, cell: CellSummary | None) -> str:
    if cell is None:
        return ""
    return "1 (baseline)" if cell is baseline else factor(speedup(baseline, cell))


def _roof(findings: Findings, cell: CellSummary | None) -> str:
    share = roof_share(cell, findings.run) if cell else None
    return f"{three_digits(100 * share.fraction)}%" if share else ""


def _memory(counter: MainCounter | None, cell: CellSummary | None) -> str:
    if cell is None or not cell.ok:
        return ""
    value = counter.per_sample(cell) if counter else None
    return "n/a" if value is None else bytes_(value)


def _stopped(series: Sequence[CellSummary]) -> str:
    return "; ".join(stop_text(stop, series) for stop in stops(series))


def _fastest(section: Section, N: int | None) -> frozenset[tuple[int, int]]:
    return frozenset((row, 4) for row, label in enumerate(section.series) if N and label in fastest(section, N))


def _explained(findings: Findings, section: Section, bases: Sequence[CellSummary]) -> list[str]:
    exponent = f"N^x: least squares of log time {per(section.workload)} {_EXPONENT}"
    lines = [f"{exponent}. Bold: fastest, and whatever overlaps with it."]
    if N := section.common_length:
        lines.append(f"Compared at {length(N)}: the longest of the lengths at which the most methods have numbers.")
    if any(_roof(findings, s) for s in section.summaries):
        lines.append(_OF_THE_ROOF)
    lines += _baselines(findings, bases)
    if section.workload.decodes:
        return [*lines, *state_notes(section.summaries)]
    return [*lines, *memory_notes(findings, section.summaries)]


def _baselines(findings: Findings, bases: Sequence[CellSummary]) -> list[str]:
    names = [findings.names[base.cell.label] for base in bases]
    if findings.run.suite.report.baselines:
        return [f"Speed-up: over {' and '.join(names)}, which the suite names."] if names else []
    why = [_UNCACHED if without_cache(base) else _STRONGEST for base in bases]
    begin = ["Speed-up: over", *["And over"] * len(bases)]
    return [f"{words} {name}, {reason}." for words, name, reason in zip(begin, names, why, strict=False)]
