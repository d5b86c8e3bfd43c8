"""The small picture of a run: its main figure against N, or what is learnt against updates; a curve for each method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnbench.analyze.cells import learning_curve
from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import MEMORY, STATE_BYTES, TIME, Unit, main_quantity, recorded
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baseline
from attnbench.report.drawing import style
from attnbench.report.drawing.images import data_uri
from attnbench.report.drawing.lines import Plotted, beyond
from attnbench.report.drawing.style import width
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import CURVES
from attnbench.report.text.names import drawable, shorten
from attnbench.report.text.numbers import heading, written
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import OUTPUT_ERROR, ROUNDING
from attnbench.schema.units import length

MOST = 6
"""Methods that are told apart; more would be lines without names."""
_APART = 1.25
"""Of two neighbouring updates, the later over the earlier, at least."""
_ROOM = 0.2
"""Above all points, for crosses, at most: a share of the axis without it."""
_NAME = 44
_FIGURES = {"time": TIME, "memory": MEMORY, "state": STATE_BYTES, "fidelity": OUTPUT_ERROR, "numerics": ROUNDING}
_OTHERS = "#b0b5bc"
# inches: the picture, its axes, a row of its key
_WIDTH, _HEIGHT, _ABOVE, _BELOW, _ROW, _CROSS = 3.4, 1.05, 0.08, 0.24, 0.138, 5.0


@dataclass(frozen=True)
class Curve:
    """One method."""

    name: str
    look: style.Look
    points: Mapping[int, float]
    """By what is across."""
    failure: tuple[int, float] | None = None
    """The first length at which it failed, and where the curve would have been."""


@dataclass(frozen=True)
class Chosen:
    """The part that is drawn: the methods that are named, the best first, and all others."""

    title: str
    """`time per sample; forward, causal, float32`."""
    unit: Unit
    curves: tuple[Curve, ...]
    others: tuple[Curve, ...]
    across: str
    """What the horizontal axis is."""


@dataclass(frozen=True)
class Picture:
    """A picture as an address for a page, what it shows in words, and its height at a width of 100."""

    title: str
    address: str
    about: str
    height: float


def picture(findings: Findings) -> Picture | None:
    """Draw the first figure that the suite asks for, of the section that the sentence of result is about.

    Return None for a run without any figure.
    """
    shown = chosen(findings)
    if shown is None:
        return None
    every = (*shown.others, *shown.curves)
    values = [value for curve in every for value in curve.points.values()]
    across = [N for curve in every for N in curve.points] + [curve.failure[0] for curve in every if curve.failure]
    (low, high), (first, last) = (min(values), max(values)), (length(min(across)), length(max(across)))
    ends = [written(value, shown.unit) for value in (low, high)]
    names = ", ".join(curve.name for curve in shown.curves)
    also = f" and {len(shown.others)} more" if shown.others else ""
    with style.applied():
        figure = drawn(shown)
        return Picture(
            title=shown.title,
            address=data_uri(figure),
            about=f"{shown.title}: {names}{also}; {shown.across} from {first} to {last}, values from {ends[0]} to {ends[1]}",
            height=round(100 * figure.get_figheight() / figure.get_figwidth(), 1),
        )


def drawn(shown: Chosen) -> Figure:
    """Draw curves on logarithmic axes, a cross where a method first failed, and a key below. Call within `style.applied`."""
    every = (*shown.others, *shown.curves)
    rows = len(shown.curves) + bool(shown.others)
    height = _ABOVE + _HEIGHT + _BELOW + rows * _ROW + 0.04
    figure = Figure(figsize=(_WIDTH, height))
    low, high = (math.log(end([value for curve in every for value in curve.points.values()])) for end in (min, max))
    ends = {end: written(math.exp(end), shown.unit) for end in (low, high)}
    left = max(map(width, ends.values())) + 0.1
    box = (left / _WIDTH, (_BELOW + rows * _ROW) / height, (_WIDTH - left - 0.12) / _WIDTH, _HEIGHT / height)
    axes = figure.add_axes(box)
    # failures far above would press the curves into a corner
    failed = max((math.log(curve.failure[1]) for curve in every if curve.failure), default=high)
    top = max(high, min(failed, high + _ROOM * (high - low)))
    handles = []
    for curve in reversed(every):
        color = curve.look.color if curve in shown.curves else _OTHERS
        look: Any = {"color": color, "linewidth": 1.0}
        if curve in shown.curves:
            face = color if curve.look.filled else "none"
            look |= {"linestyle": curve.look.line, "marker": curve.look.marker, "markerfacecolor": face, "markersize": 3.2}
            handles.append(Line2D([], [], label=drawable(shorten(curve.name, _NAME)), **look))
        elif len(curve.points) == 1:
            look |= {"marker": ".", "markersize": 3.0}
        x, y = [math.log2(N) for N in curve.points], [math.log(value) for value in curve.points.values()]
        axes.plot(x, y, clip_on=False, zorder=3 if curve in shown.curves else 2, **look)
        if curve.failure:
            N, value = curve.failure
            axes.plot(math.log2(N), min(math.log(value), top), "x", color=color, markersize=_CROSS, clip_on=False, zorder=4)
    across = sorted({N for curve in every for N in curve.points} | {curve.failure[0] for curve in every if curve.failure})
    pad = 0.08 * (math.log2(across[-1] / across[0]) or 1.0) / 2
    axes.set_xlim(math.log2(across[0]) - pad, math.log2(across[-1]) + pad)
    axes.set_ylim(low - 0.06 * (top - low or 1.0), top + 0.03 * (top - low or 1.0))
    edges = {across[-1]: length(across[-1]), across[0]: f"{shown.across} = {length(across[0])}"}
    axes.set_xticks([math.log2(N) for N in sorted(edges)], [edges[N] for N in sorted(edges)])
    axes.set_yticks(list(ends), list(ends.values()))
    axes.tick_params(length=2)
    handles = handles[::-1]
    if shown.others:
        handles.append(Line2D([], [], color=_OTHERS, label=f"{len(shown.others)} more"))
    place: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 0.0), "frameon": False, "borderpad": 0.1}
    figure.legend(handles=handles, labelspacing=0.3, handlelength=3.2, **place)
    return figure


def chosen(findings: Findings) -> Chosen | None:
    """Choose what the picture shows."""
    found = (
        _learning(findings, section) if section.workload is Workload.TRAIN else _over_length(findings, section)
        for section, _ in findings.statements
    )
    return next((each for each in found if each), None)


def _over_length(findings: Findings, section: Section) -> Chosen | None:
    """Choose by the suite's own order of figures, and then by the usual one."""
    known, looks = recorded(section.summaries), style.looks(findings.labels)
    wanted = [_FIGURES.get(plot, "") for plot in findings.run.suite.report.plots]
    quantity = next((known[name] for name in (*wanted, main_quantity(section.workload), *known) if name in known), None)
    if quantity is None:
        return None
    curves = {}
    for label, cells in section.series.items():
        points = Plotted.of(quantity, section.workload).points(cells)
        failed = next((cell.cell.problem.N for cell in cells if not cell.ok and cell.status not in UNFINISHED), None)
        where = beyond(points, failed) if failed is not None else None
        failure = None if failed is None or where is None else (failed, where)
        values = {N: each.value for N, each in points.items()}
        curves[label] = Curve(findings.names[label], looks[label], values, failure)
    return _named(section, curves, heading(quantity, section.workload), quantity.unit, most_first=quantity.more_is_better)


def _learning(findings: Findings, section: Section) -> Chosen | None:
    """Choose the loss on the way; None where nothing was learnt."""
    looks, N = style.looks(findings.labels), section.common_length
    curves = {}
    for label, cell in (section.ok_at(N) if N is not None else {}).items():
        kept: dict[int, float] = {}
        # from the last one back, as far apart as markers need; what comes before any update has no place on logarithmic axes
        for moment in reversed(learning_curve(cell)):
            fits = not kept or moment.update * _APART <= min(kept)
            if fits and moment.update > 0 and moment.middle > 0:
                kept[round(moment.update)] = moment.middle
        curves[label] = Curve(findings.names[label], looks[label], dict(sorted(kept.items())))
    return _named(section, curves, CURVES["loss"][1], Unit.NATS, across="updates")


def _named(
    section: Section, curves: Mapping[str, Curve], what: str, unit: Unit, *, across: str = "N", most_first: bool = False
) -> Chosen | None:
    """Name the best at the length that most methods have, with the method that the others are compared with."""
    drawn = {label: curve for label, curve in curves.items() if curve.points}
    if not drawn:
        return None
    lengths = [N for curve in drawn.values() for N in curve.points]
    common = max(lengths, key=lambda N: (lengths.count(N), N))
    heights = {label: curve.points[common] for label, curve in drawn.items() if common in curve.points}
    order = sorted(heights, key=lambda label: heights[label], reverse=most_first)
    order += [label for label in drawn if label not in heights]
    base = baseline(section)
    named = order[:MOST]
    if base is not None and base in drawn and base not in named:
        named = [*order[: MOST - 1], base]
    others = tuple(curve for label, curve in drawn.items() if label not in named)
    return Chosen(f"{what}; {section.title}", unit, tuple(drawn[label] for label in named), others, across)
