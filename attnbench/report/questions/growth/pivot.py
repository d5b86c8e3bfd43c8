"""Methods by lengths: time, memory and state per sample, one unit per column, a failure in its place."""

from collections.abc import Callable

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.sections import Section
from attnbench.report.conditions import memory_conditions, memory_notes, notes, state_notes
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import BYTE_UNITS, TIME_UNITS, margin, shared_unit
from attnbench.report.text.per import per
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import Table
from attnbench.schema.units import length, three_digits

_Value = Callable[[CellSummary], float | None]
_Text = Callable[[CellSummary, float], str]
_Columns = list[tuple[int, float, str]]


def time_table(findings: Findings, section: Section) -> Table:
    """Median time per sample with its range; the best of each length is bold, and so is what overlaps with it."""

    def value(cell: CellSummary) -> float | None:
        return cell.time.value if cell.time is not None else None

    def text(cell: CellSummary, scale: float) -> str:
        assert cell.time is not None
        return three_digits(cell.time.value / scale) + margin(cell.time)

    columns = _columns(section, value, TIME_UNITS)
    winners = {N: fastest(section, N) for N in section.lengths}
    return Table(
        title=f"Time {per(section.workload)}: {section.title}",
        headers=("method", "tier", *(f"N={length(N)}, {unit}" for N, _, unit in columns)),
        rows=_rows(findings, section, columns, text),
        bold=_bold(section, lambda label, N: label in winners[N]),
        notes=("Bold: fastest at its length, and whatever overlaps with it.", *notes(findings, section.summaries)),
    )


def memory_table(findings: Findings, section: Section) -> Table:
    """The run's one memory counter per sample; the least of each length is bold."""
    counter = findings.counter
    return _bytes_table(
        findings,
        section,
        counter,
        f"Memory {per(section.workload)}, {counter.name if counter else 'no counter'}: {section.title}",
        (*memory_notes(findings, section.summaries), *reasons(section.summaries)),
    )


def state_table(findings: Findings, section: Section) -> Table:
    """What each method carries from token to token, for one sequence; the least of each length is bold."""
    title = f"State of one sequence: {section.title}"
    return _bytes_table(findings, section, STATE, title, (*state_notes(section.summaries), *reasons(section.summaries)))


def _bytes_table(
    findings: Findings, section: Section, counter: MainCounter | None, title: str, about: tuple[str, ...]
) -> Table:
    def value(cell: CellSummary) -> float | None:
        return counter.per_sample(cell) if counter else None

    def text(cell: CellSummary, scale: float) -> str:
        number = value(cell)
        return "n/a" if number is None else _bytes(number / scale)

    columns = _columns(section, value, BYTE_UNITS)
    least = {N: min(_values(section, N, value), default=None) for N in section.lengths}

    def wins(label: str, N: int) -> bool:
        cell = section.at(label, N)
        return cell is not None and value(cell) is not None and value(cell) == least[N]

    return Table(
        title=title,
        headers=("method", "tier", *(f"N={length(N)}, {unit}" for N, _, unit in columns)),
        rows=_rows(findings, section, columns, text),
        bold=_bold(section, wins),
        notes=(about[0], "Bold: least at its length.", *about[1:], *memory_conditions(findings, section.summaries)),
    )


def _bytes(value: float) -> str:
    """Three digits, but 4096 and not 4100: bytes often come in powers of two."""
    return f"{value:.0f}" if 1000 <= value < 10_000 else three_digits(value)


def _columns(section: Section, value: _Value, units: tuple[tuple[float, str], ...]) -> _Columns:
    """Length, scale and unit of each column."""
    return [(N, *shared_unit(_values(section, N, value), units)) for N in section.lengths]


def _values(section: Section, N: int, value: _Value) -> list[float]:
    return [number for s in section.ok_at(N).values() if (number := value(s)) is not None]


def _rows(findings: Findings, section: Section, columns: _Columns, text: _Text) -> tuple[tuple[str, ...], ...]:
    """`text` gets a cell that is ok and the scale of its column."""

    def entry(label: str, N: int, scale: float) -> str:
        cell = section.at(label, N)
        if cell is None:
            return ""
        return text(cell, scale) if cell.ok else short(cell.status)

    return tuple(
        (findings.names[label], findings.tier(series[0]), *(entry(label, N, scale) for N, scale, _ in columns))
        for label, series in section.series.items()
    )


def _bold(section: Section, wins: Callable[[str, int], bool]) -> frozenset[tuple[int, int]]:
    """Row and column; the first two columns are the method's name and tier."""
    places = ((row, label, col, N) for row, label in enumerate(section.series) for col, N in enumerate(section.lengths, 2))
    return frozenset((row, col) for row, label, col, N in places if wins(label, N))
