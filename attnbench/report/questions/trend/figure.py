"""Trends as one figure: small charts of the series that need a look most, for a README or a paper."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.trend import Trend, Trends, Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.questions.trend.card import head
from attnbench.report.questions.trend.chart import Chart, chart
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.words import ORDER, conclusion, could_show, effect, extent, quantity, title
from attnbench.report.text.names import drawable, shorten

FORMATS = ("png", "svg", "pdf")
MOST = 12
"""Series in a figure."""
_COLUMNS, _POINTS = 3, 160
# inches: a panel, left of it, above it, below it; the title
_WIDTH, _HEIGHT, _LEFT, _ABOVE, _BELOW, _TITLE, _EDGE = 1.75, 0.72, 0.60, 0.34, 0.24, 0.50, 0.08
# letters in an inch
_LETTERS = 16.5
_COLORS = {Verdict.SLOWER: "#D55E00", Verdict.FASTER: "#009E73", Verdict.LOST: "#A1195B", Verdict.GAINED: "#0072B2"}
_MARKS = {Verdict.SLOWER: "^", Verdict.FASTER: "v", Verdict.LOST: "x", Verdict.GAINED: "o"}
_QUIET = {Verdict.SAME: "no change", Verdict.UNCLEAR: "unclear; could show: {}", Verdict.ABSENT: "no number"}
_DOTS, _SOFT = "#777777", "#444444"


def image(trends: Trends, form: str) -> bytes:
    """As png, svg or pdf; the same trends give the same bytes."""
    with style.applied():
        return images(figure(trends), (form,))[form]


def figure(trends: Trends) -> Figure:
    """To be called within `style.applied()`."""
    shown = worst(trends)
    names = track_names(trend.track for trend in trends.trends)
    columns = min(_COLUMNS, max(1, len(shown)))
    rows = -(-len(shown) // columns)
    cell = (_LEFT + _WIDTH, _ABOVE + _HEIGHT + _BELOW)
    width, height = _EDGE + max(columns * cell[0] + _EDGE, 3.5), _TITLE + max(rows, 1) * cell[1]
    drawn = Figure(figsize=(width, height))
    _write(drawn, trends, len(shown))
    for number, trend in enumerate(shown):
        row, column = divmod(number, columns)
        left, bottom = column * cell[0] + _LEFT, height - _TITLE - (row + 1) * cell[1] + _BELOW
        axes = drawn.add_axes((left / width, bottom / height, _WIDTH / width, _HEIGHT / height))
        _panel(axes, trends, trend, names[trend.track.suite, trend.track.cell.key])
    return drawn


def worst(trends: Trends) -> list[Trend]:
    """The series that are shown: what changed, worst first, and then those that did not."""
    return sorted(trends.trends, key=_rank)[:MOST]


def _rank(trend: Trend) -> tuple[int, float]:
    return ORDER.index(trend.state), effect(trend.turns[-1]) if trend.turns else 0.0


def _write(drawn: Figure, trends: Trends, count: int) -> None:
    width, height = drawn.get_size_inches()
    letters = int(width * _LETTERS)
    some = f"; the {count} that need a look most" if len(trends.trends) > count else ""
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    top, edge = 1 - 0.05 / height, _EDGE / width
    drawn.text(edge, top, drawable(shorten(title(trends), letters)), fontsize=style.FONT + 1, fontweight="bold", **place)
    for line, text in enumerate((f"{conclusion(trends)}{some}", extent(trends))):
        drawn.text(edge, top - (0.15 + 0.13 * line) / height, drawable(shorten(text, letters)), color=_SOFT, **place)


def _panel(axes: Axes, trends: Trends, trend: Trend, name: str) -> None:
    shown = chart(trend, _POINTS)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.04, 1.04)
    _series(axes, shown)
    for x, y, turn in shown.marks:
        axes.plot([x], [y], _MARKS[turn.verdict], color=_COLORS[turn.verdict], markersize=4.5, markeredgewidth=1.4, zorder=6)
    entries, runs = trends.entries, trend.track.runs
    axes.set_xticks([0, 1], [entries[runs[0]].date, entries[runs[-1]].date])
    first, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    ends = [] if shown.empty else [quantity(value, trends.metric) for value in (shown.low, shown.high)]
    axes.set_yticks([0, 1] if ends else [], ends)
    axes.tick_params(length=2)
    _label(axes, trend, trend.turns[-1:], name, trends)


def _series(axes: Axes, shown: Chart) -> None:
    x, y = [point[0] for point in shown.points], [point[1] for point in shown.points]
    if shown.band:
        axes.fill([point[0] for point in shown.band], [point[1] for point in shown.band], color="#D5DDE6", linewidth=0)
        axes.plot(x, y, color=_DOTS, linewidth=0.7)
    else:
        axes.plot(x, y, "o", color=_DOTS, markersize=1.6, markeredgewidth=0)
    for level in shown.levels:
        color = _COLORS[level.turn.verdict] if level.turn else "#222222"
        axes.plot([level.left, level.right], [level.y, level.y], color=color, linewidth=1.1, zorder=4)
    axes.plot(shown.failures, [0.0] * len(shown.failures), "x", color=_COLORS[Verdict.LOST], markersize=2.4, zorder=5)


def _label(axes: Axes, trend: Trend, newest: Sequence[Turn], name: str, trends: Trends) -> None:
    """The name above, and below it how the newest change went."""
    letters = int((_LEFT + _WIDTH - 0.1) * _LETTERS)
    place: Any = {"transform": axes.transAxes, "ha": "left", "va": "bottom", "parse_math": False}
    left = -_LEFT * 0.85 / _WIDTH
    axes.text(left, 1 + 0.16 / _HEIGHT, drawable(shorten(name, letters)), fontweight="bold", **place)
    words = [(head(turn, trends.metric), _COLORS[turn.verdict]) for turn in newest]
    text, color = words[0] if words else (_QUIET[trend.state].format(could_show(trend)), _SOFT)
    axes.text(left, 1 + 0.05 / _HEIGHT, drawable(text), color=color, **place)
