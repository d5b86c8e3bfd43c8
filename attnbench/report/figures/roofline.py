"""The roofline figure: how fast each cell computes, against what it does for each byte, under the roof of the same run.

Williams, Waterman and Patterson 2009. A larger marker is a longer N; a ring marks what lies above the roof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnbench.analyze.intensity import Placed, placed
from attnbench.analyze.sections import Section
from attnbench.report.conditions import conditions, device_name, replication
from attnbench.report.drawing import style
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.caption import panel_reasons, text
from attnbench.report.drawing.legend import Entry
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.over_length import heading, second_line, where
from attnbench.report.drawing.lines.parts import parts
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import Look, scaled
from attnbench.report.drawing.ticks import factor_ticks, rate_ticks
from attnbench.report.figures.kinds import CannotDrawError, Drawing, by_workload
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Roof
from attnbench.schema.units import length, three_digits

_SMALLEST, _LARGEST = 2.2, 5.0
_RING = 3.2
_PER_SECOND = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_NAME = "executed FLOPs per second"
_KIND = "roofline"


def roofline(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """A figure a workload, a panel a section; of those that have costs, times and a roof."""
    found = {
        w: own
        for w, sections in by_workload(findings, lambda workload: workload.is_timed).items()
        if (own := _with_points(findings, sections))
    }
    if not found:
        raise CannotDrawError(_why_not(findings))
    return [_drawing(findings, workload, sections, sheet) for workload, sections in found.items()]


def _why_not(findings: Findings) -> str:
    if not findings.run.surroundings.roof:
        return "the run has no roof: its large product and its large copy were not measured"
    if not findings.run.costs:
        return "none of the run's methods says what it costs in FLOPs and bytes"
    return "no cell of the run has both a time and a cost in FLOPs and bytes"


@dataclass(frozen=True)
class _Point:
    label: str
    N: int
    at: Placed


def _points(findings: Findings, section: Section) -> list[_Point]:
    found = ((s, placed(s, findings.run)) for series in section.series.values() for s in series)
    return [_Point(s.cell.label, s.cell.problem.N, at) for s, at in found if at is not None]


def _with_points(findings: Findings, sections: Sequence[Section]) -> list[Section]:
    return [section for section in sections if _points(findings, section)]


def _drawing(findings: Findings, workload: Workload, sections: list[Section], sheet: Sheet) -> Drawing:
    members = [part for section in sections for part in parts(section, sheet.methods) if _points(findings, part)]
    rows = list(dict.fromkeys(section.conditions for section in members))
    looks = run_looks(findings)
    words = [heading(section, rows, titled=sheet.titled) for section in members]
    tiles = [
        _tile(findings, section, looks, title, place)
        for section, title, place in zip(members, words, where(members), strict=True)
    ]
    title = f"{workload.value}: {_KIND}"
    board = Board(title, second_line(findings, rows), tuple(tiles), entries=_sizes(members), natural=(2.7, 2.3), named=True)
    return Drawing(workload.value, board, _caption(findings, workload, members))


def _tile(findings: Findings, section: Section, looks: dict[str, Look], words: str, place: tuple[int, int]) -> Tile:
    points = _points(findings, section)
    roof = findings.run.surroundings.roof[section.summaries[0].cell.ceiling]
    labels = dict.fromkeys(point.label for point in points)
    entries: list[Entry] = [(_line, _speeds(roof))]
    entries += [(partial(panel.mark, looks[label], _LARGEST - 1), findings.plot_names[label]) for label in labels]
    return Tile(words, *place, partial(_draw, points, roof, looks, section.lengths), _NAME, entries=tuple(entries))


def _sizes(members: Sequence[Section]) -> tuple[Entry, ...]:
    """What a large and a small marker, and a ring, mean."""
    lengths = sorted({N for section in members for N in section.lengths})
    ends = [(_SMALLEST, f"N = {length(lengths[0])}"), (_LARGEST, f"N = {length(lengths[-1])}")]
    sizes = ends if len(lengths) > 1 else ends[1:]
    return (*((partial(_dot, size), words) for size, words in sizes), (partial(_ring, _LARGEST), "above the roof"))


def _dot(size: float, x: Sequence[float], y: Sequence[float]) -> Line2D:
    return Line2D(list(x), list(y), color=style.soft(), linestyle="", marker="o", markersize=scaled(size))


def _ring(size: float, x: Sequence[float], y: Sequence[float]) -> Line2D:
    """Around a marker of that size."""
    hollow: Any = {"markerfacecolor": "none", "markeredgewidth": scaled(0.7), "zorder": 5}
    return Line2D(list(x), list(y), color=style.soft(), linestyle="", marker="o", markersize=scaled(size + _RING), **hollow)


def _draw(
    points: Sequence[_Point],
    roof: Roof,
    looks: dict[str, Look],
    lengths: Sequence[int],
    axes: Axes,
    _: tuple[float, float],
) -> None:
    across = _scales(axes, points, roof)
    _roof(axes, roof, across)
    for label in dict.fromkeys(point.label for point in points):
        own = [point for point in points if point.label == label]
        path: Any = {"color": looks[label].color, "linewidth": scaled(0.7), "alpha": 0.6, "zorder": 2}
        axes.add_artist(Line2D([p.at.intensity for p in own], [p.at.flops_per_second for p in own], **path))
        for point in own:
            _mark(axes, point, looks[label], _size(point.N, lengths))


def _size(N: int, lengths: Sequence[int]) -> float:
    """Of a marker, rising with log N."""
    if lengths[0] == lengths[-1]:
        return _LARGEST - 1
    return _SMALLEST + (_LARGEST - _SMALLEST) * math.log(N / lengths[0]) / math.log(lengths[-1] / lengths[0])


def _mark(axes: Axes, point: _Point, look: Look, size: float) -> None:
    at = ([point.at.intensity], [point.at.flops_per_second])
    axes.add_artist(panel.mark(look, size, *at, zorder=4))
    if point.at.above:
        axes.add_artist(_ring(size, *at))


def _scales(axes: Axes, points: Sequence[_Point], roof: Roof) -> tuple[float, float]:
    """Around the points and the ridge, where the two parts of the roof meet. Gives the limits across."""
    ridge = roof.flops_per_second / roof.bytes_per_second
    across, up = [p.at.intensity for p in points], [p.at.flops_per_second for p in points]
    x = min([ridge, *across]) / 2.5, max([ridge, *across]) * 2.5
    y = min(up) / 2.0, max([roof.flops_per_second, *up]) * 2.0
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*x)
    axes.set_ylim(*y)
    axes.set_xticks([value for value, _ in factor_ticks(*x)], [words for _, words in factor_ticks(*x)])
    axes.set_yticks([value for value, _ in rate_ticks(*y)], [words for _, words in rate_ticks(*y)])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.set_xlabel("executed FLOPs per byte of least traffic", labelpad=scaled(1))
    return x


def _roof(axes: Axes, roof: Roof, across: tuple[float, float]) -> None:
    left, right = across
    ridge, most = roof.flops_per_second / roof.bytes_per_second, roof.flops_per_second
    axes.add_artist(_line([left, ridge, right], [left * roof.bytes_per_second, most, most]))


def _line(x: Sequence[float], y: Sequence[float]) -> Line2D:
    """Of the roof."""
    return Line2D(list(x), list(y), color=style.ink(), linewidth=scaled(1.0), zorder=1.5)


def _speeds(roof: Roof) -> str:
    """`roof: 148 GFLOP/s, 16.8 GB/s`."""
    return f"roof: {_rate(roof.flops_per_second)}FLOP/s, {_rate(roof.bytes_per_second)}B/s"


def _rate(value: float) -> str:
    scale, letter = next((unit for unit in _PER_SECOND if value >= unit[0]), _PER_SECOND[-1])
    return f"{three_digits(value / scale)} {letter}"


def _caption(findings: Findings, workload: Workload, members: Sequence[Section]) -> str:
    cells = [summary for section in members for summary in section.summaries]
    return text(
        [
            f"{workload.value}: executed FLOPs per second against executed FLOPs per byte of least traffic, by each method's "
            f"cost; both axes logarithmic. {device_name(findings)}.",
            "A marker a cell, the larger the longer N; cells of one method are joined by rising N.",
            "The roof: a large matrix product and a large copy, the highest measured here. Ringed: above it, which is honest "
            "where what a call touches stays in cache (the large copy does not), and else an error of measurement or cost.",
            *replication(cells),
            *panel_reasons(members),
            *conditions(findings, cells),
        ]
    )
