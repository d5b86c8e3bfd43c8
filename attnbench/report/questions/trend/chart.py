"""The geometry of one small chart: a series over its runs, its levels, its changes, its failures; without colours or words.

Coordinates are fractions, x from left to right, y from bottom to top.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnbench.analyze.trend import Trend, Turn
from attnbench.schema.history import Floats, Integers

Points = list[tuple[float, float]]
_LEAST_SPAN = 1.3
"""Highest over lowest of the axis, so that noise of a few per cent does not fill it."""
_ROOM = 1.06
_FAILED = 0.04
"""Height of the crosses."""


@dataclass(frozen=True)
class Level:
    """A stretch between two changes; `turn` is what it began with, None for the first."""

    left: float
    right: float
    y: float
    turn: Turn | None


@dataclass(frozen=True)
class Chart:
    """What is drawn of one trend."""

    low: float
    """Value at the bottom; the axis is logarithmic."""
    high: float
    points: Points
    """Of each run, or the median of each bucket of runs."""
    band: Points
    """Around the least and the greatest of each bucket; empty where every run is drawn."""
    bucket: int
    """Runs in a bucket; 1 where every run is drawn."""
    levels: tuple[Level, ...]
    marks: tuple[tuple[float, float, Turn], ...]
    """Where each turn that is told came."""
    failures: tuple[float, ...]
    """x of the runs, or buckets, in which the cell failed."""

    @property
    def empty(self) -> bool:
        """Whether there is no number to draw."""
        return not self.points


def chart(trend: Trend, most: int) -> Chart:
    """With at most about `most` points; longer series are drawn as median, least and greatest of buckets."""
    values, count = trend.values, len(trend.track)
    low, high = _range(values)
    axis = _Axis(count, low, high)
    size = max(1, math.ceil(len(values) / most))
    x = [axis.x(place) for place in _of_buckets(np.mean, trend.used, size)]
    middle, least, greatest = ([axis.y(value) for value in _of_buckets(f, values, size)] for f in (np.median, np.min, np.max))
    band = [*zip(x, greatest, strict=True), *reversed([*zip(x, least, strict=True)])] if size > 1 else []
    return Chart(
        low=low,
        high=high,
        points=list(zip(x, middle, strict=True)),
        band=band,
        bucket=size,
        levels=_levels(trend, axis),
        marks=tuple((axis.x(turn.at), _height(axis, turn), turn) for turn in trend.turns),
        failures=_failures(trend, axis, most),
    )


def _of_buckets(what: Callable[..., Any], values: Floats | Integers, size: int) -> list[float]:
    """Of each `size` numbers in a row; the last bucket may be smaller."""
    whole = len(values) // size * size
    parts = [values[:whole].reshape(-1, size), values[whole:].reshape(-1, max(1, len(values) - whole))]
    return [float(value) for part in parts if part.size for value in what(part, axis=1)]


@dataclass(frozen=True)
class _Axis:
    count: int
    low: float
    high: float

    def x(self, position: float) -> float:
        return (position + 0.5) / self.count

    def y(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(max(share, 0.0), 1.0)


def _range(values: Floats) -> tuple[float, float]:
    """Around all values, and never less than a factor of 1.3."""
    if not len(values):
        return 1.0, 10.0
    low, high = float(values.min()), float(values.max())
    widen = max(_ROOM, math.sqrt(max(1.0, _LEAST_SPAN * low / high)))
    return low / widen, high * widen


def _levels(trend: Trend, axis: _Axis) -> tuple[Level, ...]:
    """The means between changes, those before `since` included."""
    steps = trend.steps
    if not steps:
        return ()
    turns = {turn.at: turn for turn in trend.turns if turn.interval is not None}
    starts = [0, *(step.at for step in steps)]
    heights = [steps[0].before, *(step.after for step in steps)]
    ends = [*starts[1:], len(trend.used)]
    found = []
    for start, end, height in zip(starts, ends, heights, strict=True):
        first, last = int(trend.used[start]), int(trend.used[end - 1])
        found.append(Level(axis.x(first), axis.x(last), axis.y(math.exp(height)), turns.get(first) if start else None))
    return tuple(found)


def _height(axis: _Axis, turn: Turn) -> float:
    """At the new level; of what was lost or gained, at the bottom."""
    return _FAILED if math.isnan(turn.after) else axis.y(turn.after)


def _failures(trend: Trend, axis: _Axis, most: int) -> tuple[float, ...]:
    """Each once where there is room, else once a bucket."""
    failed = np.flatnonzero(trend.track.failures >= 0)
    size = max(1, math.ceil(len(trend.track) / most))
    places = np.unique(failed // size) * size + (size - 1) / 2
    return tuple(axis.x(min(float(place), len(trend.track) - 1.0)) for place in places)
