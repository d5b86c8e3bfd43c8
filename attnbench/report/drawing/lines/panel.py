"""One panel: lines with their ranges, failures where they fell, labels beside the ends, entries of a legend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D

from attnbench.report.drawing import beside
from attnbench.report.drawing.beside import Label
from attnbench.report.drawing.lines.curve import Curve
from attnbench.report.drawing.lines.quantity import Point, Quantity
from attnbench.report.drawing.style import Look, scaled, soft
from attnbench.report.drawing.ticks import length_ticks

_ROW = 0.05
"""Of the panel's height: a row of crosses at the top for a method that never ran."""


@dataclass(frozen=True)
class Range:
    """Both axes' limits; the panels of one row share them."""

    lengths: tuple[int, ...]
    low: float
    high: float
    empty: bool
    roof: float
    """Fraction of the height up to which lines and the failures on them may go; above are the rows."""

    @classmethod
    def of(cls, panels: Sequence[Sequence[Curve]], lengths: Sequence[int], level: float | None = None) -> "Range":
        """Around the points of all panels, with room above for failures, and never less than a factor of four.

        Around `level` too, where there is one.
        """
        curves = [curve for panel in panels for curve in panel]
        points = [point for curve in curves for point in curve.points]
        if not points:
            return cls(tuple(lengths), 1.0, 10.0, empty=True, roof=1.0)
        held = [] if level is None else [level]
        low = min([*held, *(p.estimate.interval.low for p in points)]) / 1.5
        high = max([*held, *(p.estimate.interval.high for p in points)]) * 1.5
        marks = [mark for curve in curves for _, mark, _ in curve.failures if mark is not None]
        # failures far above would press the lines into a corner
        high = max([high, *(min(mark, 3 * high) * 1.3 for mark in marks)])
        roof = max(0.5, 1 - _ROW * max(sum(not curve.points for curve in panel) for panel in panels))
        return cls(tuple(lengths), low, low * max(high / low, 4.0) ** (1 / roof), empty=False, roof=roof - 0.02)

    def height(self, value: float) -> float:
        """Fraction of the panel's height, kept inside."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return min(share, self.roof)

    def at(self, height: float) -> float:
        """The value at a fraction of the height."""
        return float(self.low * (self.high / self.low) ** height)


def draw(axes: Axes, curves: Sequence[Curve], span: Range, quantity: Quantity, inches: tuple[float, float]) -> None:
    """Everything but the title and the legend; `inches` are the panel's width and height."""
    limits = _scales(axes, span, quantity, inches[0])
    rows = _rows(curves)
    _ranges(axes, curves)
    for number, (curve, row) in enumerate(zip(curves, rows, strict=True)):
        lengths, values = [p.N for p in curve.points], [p.value for p in curve.points]
        axes.add_artist(sample(curve.look, lengths, values, zorder=3 + 0.01 * number))
        _failures(axes, curve, span, row)
    ends = [_end(curve, span, row) for curve, row in zip(curves, rows, strict=True)]
    labels = [Label(c.beside, c.look.color, share(N, limits), y) for c, (N, y) in zip(curves, ends, strict=True)]
    beside.write(axes, labels, inches)
    if span.empty:
        said(axes, "nothing was measured")


def said(axes: Axes, words: str) -> None:
    """In the middle of a panel that has nothing else to show."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=soft())


def _rows(curves: Sequence[Curve]) -> list[float]:
    """Heights of the rows at the top: one for each method that never ran, and unused by the others."""
    never = [sum(not curve.points for curve in curves[:i]) for i in range(len(curves))]
    return [1 - _ROW * (count + 0.6) for count in never]


def _scales(axes: Axes, span: Range, quantity: Quantity, width: float) -> tuple[float, float]:
    """Gives the limits of the horizontal axis."""
    axes.set_yscale("log")
    axes.set_ylim(span.low, span.high)
    limits = over_lengths(axes, span.lengths, width, 1.2)
    up = [] if span.empty else quantity.ticks(span.low, span.high)
    axes.set_yticks([value for value, _ in up], [text for _, text in up])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    if quantity.level is not None and not span.empty:
        axes.axhline(quantity.level, color=soft(), linewidth=scaled(0.8), zorder=1)
    return limits


def over_lengths(axes: Axes, lengths: Sequence[int], width: float, room: float) -> tuple[float, float]:
    """The horizontal axis, logarithmic, of so many inches; `room` is left at both ends, as a factor. Gives its limits."""
    first, last = (lengths[0], lengths[-1]) if lengths else (1, 2)
    room = 2.0 if first == last else room
    axes.set_xscale("log", base=2)
    limits = first / room, last * room
    axes.set_xlim(*limits)
    across = length_ticks(lengths, width / math.log2(last * room * room / first), scaled(0.2))
    axes.set_xticks([value for value, _ in across], [text for _, text in across])
    axes.set_xlabel("N (tokens)", labelpad=scaled(1))
    return limits


def share(N: float, limits: tuple[float, float]) -> float:
    """Of the way from one limit to the other."""
    return math.log(N / limits[0]) / math.log(limits[1] / limits[0])


def _ranges(axes: Axes, curves: Sequence[Curve]) -> None:
    """A band for each line; a range too narrow to be seen in it still shows as a bar."""
    ranged = [
        (curve.look.color, [(p.N, p.estimate.interval) for p in curve.points if not p.estimate.is_exact]) for curve in curves
    ]
    bands = [[*((N, i.low) for N, i in each), *((N, i.high) for N, i in reversed(each))] for _, each in ranged if each]
    bars = [(color, [(N, i.low), (N, i.high)]) for color, each in ranged for N, i in each]
    colors = [color for color, each in ranged if each]
    # all at once: each collection takes as long as a line
    axes.add_collection(PolyCollection(bands, facecolors=colors, alpha=0.22, linewidth=0, zorder=2), autolim=False)
    upright = LineCollection([ends for _, ends in bars], colors=[color for color, _ in bars], zorder=2.9)
    upright.set_linewidth(scaled(0.8))
    axes.add_collection(upright, autolim=False)


def sample(look: Look, x: Sequence[float], y: Sequence[float], zorder: float = 1.0) -> Line2D:
    """A line with its markers."""
    style: Any = {"color": look.color, "linestyle": look.line, "marker": look.marker, "markerfacecolor": look.face}
    return Line2D(list(x), list(y), markeredgewidth=scaled(0.8), zorder=zorder, **style)


def mark(look: Look, size: float, x: Sequence[float], y: Sequence[float], **more: Any) -> Line2D:  # noqa: ANN401
    """Markers without a line, of so many points where letters have 7."""
    shape: Any = {"marker": look.marker, "markerfacecolor": look.face, "markersize": scaled(size), **more}
    return Line2D(list(x), list(y), color=look.color, linestyle="", markeredgewidth=scaled(0.8), **shape)


def _failures(axes: Axes, curve: Curve, span: Range, row: float) -> None:
    """Crosses on the line drawn further, or in a row at the top for a method that never ran."""
    previous: Point | None = curve.points[-1] if curve.points else None
    color, thin = curve.look.color, scaled(0.8)
    for N, value, first in curve.failures:
        y = span.at(row if value is None else span.height(value))
        if previous is not None and first and previous.N < N:
            dots = Line2D([previous.N, N], [previous.value, y], linestyle=":", color=color, linewidth=thin, alpha=0.7, zorder=2)
            axes.add_artist(dots)
        alpha, size, zorder = (1.0, 5.0, 6) if first else (0.3, 3.5, 2)
        marked: Any = {"alpha": alpha, "markersize": scaled(size), "zorder": zorder, "markeredgewidth": scaled(1.2)}
        axes.add_artist(Line2D([N], [y], linestyle="", marker="x", color=color, **marked))


def _end(curve: Curve, span: Range, row: float) -> tuple[int, float]:
    """Length and height of where a label's leader starts: the last point or the first failure beyond it."""
    if not curve.points:
        return (curve.failures[-1][0] if curve.failures else span.lengths[-1]), row
    last = curve.points[-1]
    after = next(((N, value) for N, value, _ in curve.failures if last.N < N and value is not None), None)
    N, value = after or (last.N, last.value)
    return N, span.height(value)
