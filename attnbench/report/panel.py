"""One panel: lines with their ranges, failures where they fell, labels beside the ends, a legend below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnbench.report.apart import spread_apart
from attnbench.report.curve import Curve
from attnbench.report.quantity import Point, Quantity
from attnbench.report.style import FONT
from attnbench.report.ticks import length_ticks

LINE = FONT * 1.2 / 72
"""Inches of one line of text."""
_ROW = 0.05
"""Of the panel's height: a row of crosses at the top for a method that never ran."""
_LEADER = {"arrowstyle": "-", "linewidth": 0.6, "alpha": 0.8, "shrinkA": 1, "shrinkB": 3, "relpos": (0.0, 0.5)}


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
    def of(cls, panels: Sequence[Sequence[Curve]], lengths: Sequence[int]) -> "Range":
        """Around the points of all panels, with room above for failures, and never less than a factor of four."""
        curves = [curve for panel in panels for curve in panel]
        points = [point for curve in curves for point in curve.points]
        if not points:
            return cls(tuple(lengths), 1.0, 10.0, empty=True, roof=1.0)
        low = min(p.interval.low if p.interval else p.value for p in points) / 1.5
        high = max(p.interval.high if p.interval else p.value for p in points) * 1.5
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
    """Everything but the title; `inches` are the panel's width and height."""
    _scales(axes, span, quantity, inches[0])
    rows = _rows(curves)
    for number, (curve, row) in enumerate(zip(curves, rows, strict=True)):
        _line(axes, curve, zorder=3 + 0.01 * number)
        _failures(axes, curve, span, row)
    _labels(axes, curves, [_end(curve, span, row) for curve, row in zip(curves, rows, strict=True)], inches[1])
    if span.empty:
        axes.text(0.5, 0.5, "nothing was measured", transform=axes.transAxes, ha="center", va="center", color="#555555")


def _rows(curves: Sequence[Curve]) -> list[float]:
    """Heights of the rows at the top: one for each method that never ran, and unused by the others."""
    never = [sum(not curve.points for curve in curves[:i]) for i in range(len(curves))]
    return [1 - _ROW * (count + 0.6) for count in never]


def _scales(axes: Axes, span: Range, quantity: Quantity, width: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    first, last = (span.lengths[0], span.lengths[-1]) if span.lengths else (1, 2)
    room = 2.0 if first == last else 1.2
    axes.set_xlim(first / room, last * room)
    axes.set_ylim(span.low, span.high)
    per_doubling = width / math.log2(last * room * room / first)
    across = length_ticks(span.lengths, per_doubling, 0.2)
    axes.set_xticks([value for value, _ in across], [text for _, text in across])
    up = [] if span.empty else quantity.ticks(span.low, span.high)
    axes.set_yticks([value for value, _ in up], [text for _, text in up])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.set_xlabel("N (tokens)", labelpad=1)


def _line(axes: Axes, curve: Curve, zorder: float) -> None:
    lengths, values = [p.N for p in curve.points], [p.value for p in curve.points]
    axes.add_line(_sample(curve, lengths, values, zorder))
    ranged = [(p.N, p.interval) for p in curve.points if p.interval]
    low, high = [i.low for _, i in ranged], [i.high for _, i in ranged]
    axes.fill_between([N for N, _ in ranged], low, high, color=curve.look.color, alpha=0.22, linewidth=0, zorder=2)
    # a range too narrow to be seen as a band still shows as a bar
    axes.vlines([N for N, _ in ranged], low, high, color=curve.look.color, linewidth=0.8, zorder=zorder)


def _sample(curve: Curve, x: Sequence[float], y: Sequence[float], zorder: float = 1.0) -> Line2D:
    look = curve.look
    style: Any = {"color": look.color, "linestyle": look.line, "marker": look.marker, "markerfacecolor": look.face}
    return Line2D(list(x), list(y), markeredgewidth=0.8, zorder=zorder, **style)


def _failures(axes: Axes, curve: Curve, span: Range, row: float) -> None:
    """Crosses on the line drawn further, or in a row at the top for a method that never ran."""
    previous: Point | None = curve.points[-1] if curve.points else None
    for N, value, first in curve.failures:
        y = span.at(row if value is None else span.height(value))
        if previous is not None and first and previous.N < N:
            axes.plot([previous.N, N], [previous.value, y], ":", color=curve.look.color, linewidth=0.8, alpha=0.7, zorder=2)
        style: Any = {"alpha": 1.0, "markersize": 5.0, "zorder": 6} if first else {"alpha": 0.3, "markersize": 3.5, "zorder": 2}
        axes.plot([N], [y], "x", color=curve.look.color, markeredgewidth=1.2, **style)


def _labels(axes: Axes, curves: Sequence[Curve], ends: Sequence[tuple[int, float]], height: float) -> None:
    """Beside the panel, moved apart, each joined to the end of its line (length, fraction of the panel's height)."""
    heights = [(curve.beside.count("\n") + 1.25) * LINE / height for curve in curves]
    places = spread_apart([share for _, share in ends], heights, -0.12, 1.08)
    for curve, (N, share), place in zip(curves, ends, places, strict=True):
        axes.annotate(
            curve.beside,
            xy=(N, share),
            xycoords=axes.get_xaxis_transform(),
            xytext=(1.05, place),
            textcoords="axes fraction",
            va="center",
            color="#222222",
            linespacing=1.05,
            parse_math=False,
            annotation_clip=False,
            arrowprops={**_LEADER, "color": curve.look.color},
        )


def _end(curve: Curve, span: Range, row: float) -> tuple[int, float]:
    """Length and height of where a label's leader starts: the last point or the first failure beyond it."""
    if not curve.points:
        return (curve.failures[-1][0] if curve.failures else span.lengths[-1]), row
    last = curve.points[-1]
    after = next(((N, value) for N, value, _ in curve.failures if last.N < N and value is not None), None)
    N, value = after or (last.N, last.value)
    return N, span.height(value)


def legend(axes: Axes, curves: Sequence[Curve], left: float, below: float) -> None:
    """Under the panel; `left` and `below` are fractions of the axes."""
    handles = [_sample(curve, [], []) for curve in curves]
    # a leading underscore would hide an entry
    texts = [f"\u200b{curve.legend}" if curve.legend.startswith("_") else curve.legend for curve in curves]
    box = axes.legend(
        handles,
        texts,
        loc="upper left",
        bbox_to_anchor=(left, below),
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        labelspacing=0.25,
        handlelength=2.6,
        handletextpad=0.6,
    )
    for text in box.get_texts():
        text.set_parse_math(False)
