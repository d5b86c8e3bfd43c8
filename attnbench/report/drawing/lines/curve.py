"""One method in one panel: what is drawn, and where; pure, before any axes exist."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.stops import stops
from attnbench.report.drawing.lines.quantity import Point, Quantity, beyond
from attnbench.report.drawing.style import Look
from attnbench.report.findings import Findings
from attnbench.report.text.names import shorten
from attnbench.report.text.numbers import exponent
from attnbench.report.text.statuses import stop_text

_WIDTH = 21
"""Letters of a label beside a panel."""


@dataclass(frozen=True)
class Curve:
    """Points, marks of failures (N, value or None where the method never ran), and two texts."""

    look: Look
    points: tuple[Point, ...]
    failures: tuple[tuple[int, float | None, bool], ...]
    """The last entry says whether it is the first of its kind; later ones are faint."""
    beside: str
    """The label at the end of the line: name, parameters, what stopped it; one or several lines."""
    legend: str
    """Name and exponent."""


def curves(findings: Findings, section: Section, quantity: Quantity, looks: dict[str, Look]) -> list[Curve]:
    """All methods of a section, in suite order."""
    return [_curve(findings, series, quantity, looks[label]) for label, series in section.series.items()]


def _curve(findings: Findings, series: Sequence[CellSummary], quantity: Quantity, look: Look) -> Curve:
    points, ends = quantity.points(series), [stop_text(stop, series) for stop in stops(series)]
    ends = ends if ends or points else ["n/a"]
    name = findings.plot_names[series[0].cell.label]
    fit = exponent(quantity.exponent(series)) or (ends[0] if ends and not points else "")
    beside = "\n".join([*_over_lines(name), *ends[:2]])
    return Curve(look, tuple(points), _failures(series, points), beside, f"{name}  {fit}".strip())


def _failures(series: Sequence[CellSummary], points: Sequence[Point]) -> tuple[tuple[int, float | None, bool], ...]:
    firsts = {stop.status: stop.lengths[0] for stop in stops(series)}
    failed = [(s.cell.problem.N, s.status) for s in series if not s.ok]
    return tuple((N, beyond(points, N), firsts[status] == N) for N, status in failed)


def _over_lines(name: str) -> list[str]:
    """Parameters go on a line of their own where the whole is too long."""
    if len(name) <= _WIDTH:
        return [name]
    method, bracket, params = name.partition("(")
    return [shorten(method, _WIDTH), *([shorten(f"({params}", _WIDTH)] if bracket else [])]
