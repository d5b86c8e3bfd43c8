"""A thumbnail as SVG: paths of numbers only, and a few texts, which the template escapes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnbench.report.page.appearance import corners, dashes
from attnbench.report.site.pages.thumbnail import Curve, Thumbnail, amount
from attnbench.report.text.names import shorten
from attnbench.schema.units import length

# of the plot, in units of the view box, as the template frames it
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 322.0, 8.0, 104.0
_NAME, _RADIUS = 44, 2.7
_ROOM = 0.2
"""Above all points, for crosses, at most: a share of the axis without it."""


@dataclass(frozen=True)
class Stroke:
    """One method; `color` is the name of a class of the stylesheet."""

    name: str
    color: str
    dashes: str
    filled: bool
    marker: str
    """Around a point."""
    line: str
    marks: str
    cross: str


@dataclass(frozen=True)
class Picture:
    """All that the template draws."""

    title: str
    strokes: tuple[Stroke, ...]
    others: str
    """Of all methods that are not named, in one path; and their crosses."""
    crosses: str
    more: int
    low: str
    high: str
    top: str
    """How far down the highest point is, where its text belongs."""
    first: str
    last: str
    across: str

    @property
    def about(self) -> str:
        """For those who do not see it."""
        names = ", ".join(stroke.name for stroke in self.strokes)
        also = f" and {self.more} more" if self.more else ""
        ends = f"{self.across} from {self.first} to {self.last}, values from {self.low} to {self.high}"
        return f"{self.title}: {names}{also}; {ends}"


@dataclass(frozen=True)
class _Frame:
    """Logarithmic axes around all points, and the lengths of all crosses."""

    lengths: tuple[int, int]
    values: tuple[float, float]

    def at(self, N: float, value: float) -> str:
        x, y = _share(N, *self.lengths), _share(value, *self.values)
        return f"{_LEFT + x * (_RIGHT - _LEFT):.1f} {_BOTTOM - y * (_BOTTOM - _TOP):.1f}"

    def line(self, curve: Curve) -> str:
        return f"M{'L'.join(self.at(p.N, p.value) for p in curve.points)}" if len(curve.points) > 1 else ""

    def marks(self, curve: Curve, path: str) -> str:
        return "".join(f"M{self.at(p.N, p.value)}{path}" for p in curve.points)

    def cross(self, curve: Curve) -> str:
        return f"M{self.at(*curve.failure)}m-3 -3l6 6m0 -6l-6 6" if curve.failure else ""


def picture(shown: Thumbnail) -> Picture:
    """With the axes' ends in words."""
    frame, values = _frame(shown.all), _values(shown.all)
    (first, last), low, high = frame.lengths, min(values), max(values)
    return Picture(
        title=shown.title,
        strokes=tuple(_stroke(frame, curve) for curve in shown.curves),
        others="".join(frame.line(curve) or frame.marks(curve, "h0") for curve in shown.others),
        crosses="".join(frame.cross(curve) for curve in shown.others),
        more=len(shown.others),
        low=amount(low, shown.metric),
        high=amount(high, shown.metric),
        top=frame.at(last, high).partition(" ")[2],
        first=length(first),
        last=length(last),
        across=shown.across,
    )


def classes(pictures: Iterable[Picture]) -> list[str]:
    """All colours that are used, as names of classes: `cd55e00`."""
    return sorted({stroke.color for each in pictures for stroke in each.strokes})


def _stroke(frame: _Frame, curve: Curve) -> Stroke:
    marker = _marker(curve.look.marker)
    return Stroke(
        name=shorten(curve.name, _NAME),
        color=f"c{curve.look.color.removeprefix('#').lower()}",
        dashes=dashes(curve.look.line),
        filled=curve.look.filled,
        marker=marker,
        line=frame.line(curve),
        marks=frame.marks(curve, marker),
        cross=frame.cross(curve),
    )


def _marker(marker: str) -> str:
    """Around a point; a circle is what has no corners."""
    points = [(x * _RADIUS, y * _RADIUS) for x, y in corners(marker)]
    if not points:
        return (
            f"m-{_RADIUS:g} 0a{_RADIUS:g} {_RADIUS:g} 0 1 0 {2 * _RADIUS:g} 0a{_RADIUS:g} {_RADIUS:g} 0 1 0 -{2 * _RADIUS:g} 0z"
        )
    steps = [points[0], *((x - u, y - v) for (u, v), (x, y) in pairwise(points))]
    return f"m{'l'.join(f'{x:.2f} {y:.2f}' for x, y in steps)}z"


def _values(curves: Sequence[Curve]) -> list[float]:
    return [point.value for curve in curves for point in curve.points]


def _frame(curves: Sequence[Curve]) -> _Frame:
    failures = [curve.failure for curve in curves if curve.failure]
    lengths = [point.N for curve in curves for point in curve.points] + [N for N, _ in failures]
    low, high = min(_values(curves)), max(_values(curves))
    crosses = max((value for _, value in failures), default=high)
    top = max(high, min(crosses, high * (high / low) ** _ROOM))
    return _Frame((min(lengths), max(lengths)), (low, top))


def _share(value: float, low: float, high: float) -> float:
    """Where between the two, by logarithms; in the middle of a range that is none."""
    if low == high:
        return 0.5
    return min(max(math.log(value / low) / math.log(high / low), 0.0), 1.0)
