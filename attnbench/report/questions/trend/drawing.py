"""A chart as paths of an SVG: numbers only, so that nothing in them needs escaping."""

from collections.abc import Callable
from dataclasses import dataclass

from attnbench.analyze.trend import Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.trend.chart import Chart, Points

# of the plot, in units of the view box, as the template frames it
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 326.0, 6.0, 80.0
_UP, _DOWN, _CROSS, _RING = "m0 -4l4 7h-8z", "m0 4l4 -7h-8z", "m-4 -4l8 8m0 -8l-8 8", "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"
_SHAPES = {Verdict.SLOWER: ("t", _UP), Verdict.FASTER: ("t", _DOWN), Verdict.LOST: ("x", _CROSS), Verdict.GAINED: ("x", _RING)}


@dataclass(frozen=True)
class Line:
    """A level, in the colour of what it began with."""

    path: str
    verdict: str


@dataclass(frozen=True)
class Mark:
    """A change; `shape` is the class of its path, and the words are what it says when it is pointed at."""

    path: str
    shape: str
    verdict: str
    words: str


@dataclass(frozen=True)
class Drawing:
    """The paths of one chart; empty where there is nothing of the kind."""

    dots: str
    line: str
    band: str
    failures: str
    levels: tuple[Line, ...]
    marks: tuple[Mark, ...]


def drawing(chart: Chart, words: Callable[[Turn], str]) -> Drawing:
    """As SVG paths."""
    return Drawing(
        dots="".join(f"M{_at(*point)}h0" for point in chart.points),
        line=_line(chart.points),
        band=f"{_line(chart.band)}z" if chart.band else "",
        failures="".join(f"M{_x(x)} {_BOTTOM - 3:g}m-2 -2l4 4m0 -4l-4 4" for x in chart.failures),
        levels=tuple(Line(f"M{_at(e.left, e.y)}H{_x(e.right)}", e.turn.verdict if e.turn else "") for e in chart.levels),
        marks=tuple(_mark(x, y, turn, words(turn)) for x, y, turn in chart.marks),
    )


def _mark(x: float, y: float, turn: Turn, words: str) -> Mark:
    shape, path = _SHAPES[turn.verdict]
    return Mark(f"M{_at(x, y)}{path}", shape, turn.verdict.value, words)


def _line(points: Points) -> str:
    return f"M{'L'.join(_at(x, y) for x, y in points)}" if points else ""


def _at(x: float, y: float) -> str:
    return f"{_x(x)} {_BOTTOM - y * (_BOTTOM - _TOP):.1f}"


def _x(x: float) -> str:
    return f"{_LEFT + x * (_RIGHT - _LEFT):.1f}"
