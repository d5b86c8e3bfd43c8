"""What the small picture of a run shows: one figure against N, or what is learnt against updates; a curve for each method."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.learning_curve import learning_curve
from attnbench.analyze.metric import MEMORY, STATE_BYTES, TIME, USUAL, Metric, metrics
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate
from attnbench.analyze.versus import baseline
from attnbench.report.drawing.lines.quantity import Point, beyond
from attnbench.report.drawing.style import Look, looks
from attnbench.report.findings import Findings
from attnbench.report.text.counts import UNFINISHED
from attnbench.report.text.per import per
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import LOSS, OUTPUT_ERROR, ROUNDING
from attnbench.schema.units import bytes_, seconds, three_digits

MOST = 6
"""Methods that are told apart; more would be lines without names."""
_APART = 1.25
"""Of two neighbouring updates, the later over the earlier, at least."""
_FIGURES = {"time": TIME, "memory": MEMORY, "state": STATE_BYTES, "fidelity": OUTPUT_ERROR, "numerics": ROUNDING}


@dataclass(frozen=True)
class Curve:
    """One method."""

    name: str
    look: Look
    points: tuple[Point, ...]
    failure: tuple[int, float] | None
    """The first length at which it failed, and where the curve would have been."""


@dataclass(frozen=True)
class Thumbnail:
    """The methods that are named, the lowest first, and all others."""

    title: str
    """`time per sample; forward, causal, float32`."""
    metric: str
    curves: tuple[Curve, ...]
    others: tuple[Curve, ...]
    across: str = "N"
    """What the horizontal axis is."""

    @property
    def all(self) -> tuple[Curve, ...]:
        """In the order in which they are drawn: what is named lies above."""
        return (*self.others, *self.curves)


def thumbnail(findings: Findings) -> Thumbnail | None:
    """The first figure that the suite asks for, of the section that the sentence of result is about.

    None of a run without any figure.
    """
    shown = (_of(findings, section) for section, _ in findings.statements)
    return next((each for each in shown if each), None)


def amount(value: float, metric: str) -> str:
    """With its unit."""
    if metric == TIME:
        return seconds(value)
    if metric in {MEMORY, STATE_BYTES}:
        return bytes_(value)
    return f"{value:.1e}" if metric == ROUNDING else three_digits(value)


def _of(findings: Findings, section: Section) -> Thumbnail | None:
    if section.workload is Workload.TRAIN:
        return _learning(findings, section)
    metric = _metric(findings, section)
    return _thumbnail(findings, section, metric) if metric else None


def _metric(findings: Findings, section: Section) -> Metric | None:
    """By the suite's own order of figures, and then by the usual one."""
    known = metrics(section.summaries)
    wanted = [*(_FIGURES.get(plot, "") for plot in findings.run.suite.report.plots), *USUAL, *known]
    return next((known[name] for name in wanted if name in known), None)


def _thumbnail(findings: Findings, section: Section, metric: Metric) -> Thumbnail:
    look = looks(findings.labels)
    drawn = {label: _curve(findings, section, label, metric, look[label]) for label in section.series}
    curves, others = _parted(findings, section, drawn)
    return Thumbnail(f"{_words(metric.name, section.workload)}; {section.title}", metric.name, curves, others)


def _learning(findings: Findings, section: Section) -> Thumbnail | None:
    """The loss on the way; None where nothing was learnt."""
    look, N = looks(findings.labels), section.common_length
    cells = section.ok_at(N) if N is not None else {}
    drawn = {label: Curve(findings.names[label], look[label], _losses(cell), None) for label, cell in cells.items()}
    if not any(curve.points for curve in drawn.values()):
        return None
    return Thumbnail(f"held-out loss, nats; {section.title}", LOSS, *_parted(findings, section, drawn), across="updates")


def _losses(cell: CellSummary) -> tuple[Point, ...]:
    """From the last one back, as far apart as markers need; what comes before any update has no place on logarithmic axes."""
    kept: list[Point] = []
    for moment in reversed(learning_curve(cell)):
        fits = not kept or moment.update * _APART <= kept[-1].N
        if fits and moment.update > 0 and moment.middle > 0:
            kept.append(Point(round(moment.update), Estimate.exact(moment.middle)))
    return tuple(reversed(kept))


def _parted(findings: Findings, section: Section, curves: Mapping[str, Curve]) -> tuple[tuple[Curve, ...], tuple[Curve, ...]]:
    """Those that are named, and all others that have a point."""
    drawn = {label: curve for label, curve in curves.items() if curve.points}
    named = _named(findings, section, drawn)
    return tuple(drawn[label] for label in named), tuple(curve for label, curve in drawn.items() if label not in named)


def _curve(findings: Findings, section: Section, label: str, metric: Metric, look: Look) -> Curve:
    cells = section.series[label]
    values = {cell.cell.problem.N: metric.of(cell) for cell in cells}
    points = tuple(Point(N, Estimate.exact(statistics.median(found.values()))) for N, found in values.items() if found)
    failed = next((cell.cell.problem.N for cell in cells if not cell.ok and cell.status not in UNFINISHED), None)
    where = beyond(points, failed) if failed is not None else None
    return Curve(findings.names[label], look, points, None if failed is None or where is None else (failed, where))


def _named(findings: Findings, section: Section, curves: Mapping[str, Curve]) -> Sequence[str]:
    """The lowest at the longest length that most methods have, and with them what the others are compared with."""
    lengths = [point.N for curve in curves.values() for point in curve.points]
    common = max(lengths, key=lambda N: (lengths.count(N), N))
    heights = {label: p.value for label, curve in curves.items() for p in curve.points if common == p.N}
    order = sorted(heights, key=lambda label: heights[label]) + [label for label in curves if label not in heights]
    base = baseline(section, findings.run.suite.report.baselines)
    if base is not None and base in curves and base not in order[:MOST]:
        return [*order[: MOST - 1], base]
    return order[:MOST]


def _words(metric: str, workload: Workload) -> str:
    return f"{metric} {per(workload)}" if metric in {TIME, MEMORY} else metric.replace("_", " ")
