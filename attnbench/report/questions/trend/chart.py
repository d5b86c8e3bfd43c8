"""Trends as small charts: one drawn into axes, many as a figure for a README or a paper, or each as a picture for a page."""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.trend import Trend, Trends
from attnbench.analyze.verdict import Verdict
from attnbench.report.drawing import style
from attnbench.report.drawing.images import data_uri, images
from attnbench.report.drawing.style import fitted, width
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.words import conclusion, could_show, extent, head, number, title, worst_first
from attnbench.report.text.names import drawable

FORMATS = ("png", "svg", "pdf")
MOST = 12
"""Series in a figure."""
POINTS = 160
"""Points in a chart; of longer series each point is several runs."""
_COLUMNS = 3
# inches: a panel, left of it, above it, below it; the title
_WIDTH, _HEIGHT, _ABOVE, _BELOW, _TITLE, _EDGE, _GAP = 1.75, 0.72, 0.38, 0.24, 0.50, 0.08, 0.12
_LEAST_SPAN = math.log(1.3)
"""Height of the axis at least, so that noise of a few per cent does not fill it."""
_ROOM = 0.08
"""Share of that height below the least and above the greatest number."""
_COLORS = {Verdict.SLOWER: "#d55e00", Verdict.FASTER: "#009e73", Verdict.LOST: "#a1195b", Verdict.GAINED: "#0072b2"}
_QUIET = {Verdict.SAME: "no change", Verdict.UNCLEAR: "unclear; could show: {}", Verdict.ABSENT: "no number now"}
_DOTS, _LEVEL, _SOFT = "#777777", "#222222", "#444444"


def runs_a_point(trend: Trend) -> int:
    """Return how many runs are drawn as one point."""
    return max(1, math.ceil(len(trend.track) / POINTS))


def draw(axes: Axes, trends: Trends, trend: Trend) -> None:
    """Draw one trend over its runs: its numbers, the levels between changes, the changes, and failures at the bottom.

    Of a long series the median, the least and the greatest of neighbouring runs are drawn, so that no extreme is hidden.
    """
    track, used, y, size = trend.track, trend.used, np.log(trend.values), runs_a_point(trend)
    low, high = _limits(trend, trends)
    if size == 1:
        axes.plot(used, y, "o", color=_DOTS, markersize=1.8, markeredgewidth=0, clip_on=False)
    elif len(y):
        starts = np.arange(0, len(y), size)
        x = used[starts]
        band = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
        axes.fill_between(x, *band, color=_DOTS, alpha=0.25, linewidth=0)
        axes.plot(x, [np.median(part) for part in np.split(y, starts[1:])], color=_DOTS, linewidth=0.7)
    begins = {turn.at: _COLORS[turn.verdict] for turn in trend.turns if turn.interval}
    edges = [0, *(step.at for step in trend.steps), len(used)]
    heights = [*(step.before for step in trend.steps[:1]), *(step.after for step in trend.steps)]
    # a series without a change has no level
    for (start, end), height in zip(pairwise(edges), heights, strict=False):
        color = begins.get(int(used[start]), _LEVEL)
        axes.plot(used[[start, end - 1]], [height, height], color=color, linewidth=1.1)
    failed = np.unique(np.flatnonzero(track.failures >= 0) // size) * size
    axes.plot(failed, [low] * len(failed), "x", color=_COLORS[Verdict.LOST], markersize=2.2, markeredgewidth=0.7, clip_on=False)
    for turn in trend.turns:
        height = min(max(math.log(turn.after), low), high) if turn.after > 0 else low
        shape = {Verdict.LOST: "x", Verdict.GAINED: "o"}.get(turn.verdict, "^" if turn.after > turn.before else "v")
        color = _COLORS[turn.verdict]
        mark: Any = {"color": color, "markersize": 4.5, "markeredgewidth": 1.4, "clip_on": False, "zorder": 6}
        axes.plot(turn.at, height, shape, markerfacecolor="none" if shape == "o" else color, **mark)
    axes.set_xlim(-0.5, len(track) - 0.5)
    axes.set_ylim(low, high)
    dates = [trends.entries[track.runs[i]].date for i in (0, -1)]
    axes.set_xticks([-0.5, len(track) - 0.5], dates)
    oldest, newest = axes.get_xticklabels()
    oldest.set_horizontalalignment("left")
    newest.set_horizontalalignment("right")
    axes.set_yticks([low, high] if len(y) else [], _ends(trend, trends) if len(y) else [])
    axes.tick_params(length=2)


def _limits(trend: Trend, trends: Trends) -> tuple[float, float]:
    """Return the ends of the vertical axis, as logarithms; it begins at the floor where some numbers are below that."""
    y = np.log(trend.values) if len(trend.used) else np.zeros(1)
    middle, half = (y.min() + y.max()) / 2, (0.5 + _ROOM) * max(float(np.ptp(y)), _LEAST_SPAN)
    low, high = float(middle - half), float(middle + half)
    if trend.below_floor:
        low = math.log(trend.floor)
    return low, min(high, math.log(trends.quantity.bounds[1]))


def _ends(trend: Trend, trends: Trends) -> list[str]:
    """Return the words beside the ends of the vertical axis."""
    low, high = (number(math.exp(end), trends.quantity) for end in _limits(trend, trends))
    return [f"≤ {low}" if trend.below_floor else low, high]


def figure(trends: Trends) -> Figure:
    """Draw the series that need a look most in a grid, with names and newest changes. Call within `style.applied`."""
    shown = worst_first(trends)[:MOST]
    names = track_names(trend.track for trend in trends.trends)
    columns = min(_COLUMNS, max(1, len(shown)))
    rows = -(-len(shown) // columns)
    left = max((width(end) for trend in shown for end in _ends(trend, trends)), default=0.0) + 0.1
    across, down = left + _WIDTH + _GAP, _ABOVE + _HEIGHT + _BELOW
    wide, height = _EDGE + max(columns * across, 3.5), _TITLE + max(rows, 1) * down
    drawn = Figure(figsize=(wide, height))
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    some = f"; the {len(shown)} that need a look most" if len(trends.trends) > len(shown) else ""
    lines = (title(trends), f"{conclusion(trends)}{some}", extent(trends))
    for text, below in zip(lines, (0.05, 0.20, 0.33), strict=True):
        weight, color = ("bold", "black") if text == lines[0] else ("normal", _SOFT)
        words = fitted(drawable(text), wide - 3 * _EDGE)
        drawn.text(_EDGE / wide, 1 - below / height, words, fontweight=weight, color=color, **place)
    place["va"] = "bottom"
    for i, trend in enumerate(shown):
        row, column = divmod(i, columns)
        bottom = height - _TITLE - (row + 1) * down + _BELOW
        box = (_EDGE + column * across + left) / wide, bottom / height, _WIDTH / wide, _HEIGHT / height
        axes = drawn.add_axes(box)
        draw(axes, trends, trend)
        name = fitted(drawable(names[trend.track.suite, trend.track.cell.key]), across - 0.4)
        newest = [(head(turn, trends.quantity), _COLORS[turn.verdict]) for turn in trend.turns[-1:]]
        words, color = newest[0] if newest else (_QUIET[trend.state].format(could_show(trend)), _SOFT)
        edge = -left / _WIDTH
        axes.text(edge, 1 + 0.19 / _HEIGHT, name, fontweight="bold", transform=axes.transAxes, **place)
        axes.text(edge, 1 + 0.07 / _HEIGHT, drawable(words), color=color, transform=axes.transAxes, **place)
    return drawn


def image(trends: Trends, form: str) -> bytes:
    """Return the figure as png, svg or pdf; the same trends give the same bytes."""
    with style.applied():
        return images(figure(trends), (form,))[form]


def pictures(trends: Trends, shown: Iterable[Trend]) -> Iterator[str]:
    """Return a chart of each of these trends as an address for a page, readable on a light and on a dark ground."""
    with style.applied():
        for trend in shown:
            drawn = Figure(figsize=(3.3, 1.0))
            left = (max(map(width, _ends(trend, trends))) + 0.1) / 3.3
            draw(drawn.add_axes((left, 0.19, 0.985 - left, 0.75)), trends, trend)
            yield data_uri(drawn)
