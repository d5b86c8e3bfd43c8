"""How time and memory grow with length: N^x, by least squares of log y on log N.

One point per length; y per sample of the batch, so that a batch that shrinks with N does not hide the growth.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.statistics import ENOUGH, Interval, Spread, t_interval, t_quantile

FEWEST = 3
"""Lengths below which no exponent is fitted."""


@dataclass(frozen=True)
class Exponent:
    """x of N^x over `lengths`; an interval only from five replicates on."""

    value: float
    interval: Interval | None
    lengths: tuple[int, ...]


def time_exponent(series: Sequence[CellSummary], at_least: int | None = None) -> Exponent | None:
    """Of the time of one method, cells of different N and otherwise alike; only cells that are ok count.

    Over the upper half of the lengths (at least three), or over all from `at_least` on. None with fewer than three.
    """
    points = {s.cell.problem.N: s for s in series if s.ok}
    chosen = _chosen(points, at_least)
    if not chosen:
        return None
    value = slope({N: time.value for N in chosen if (time := points[N].time) is not None})
    return Exponent(value, _interval([points[N] for N in chosen]), chosen)


def memory_exponent(series: Sequence[CellSummary], counter: MainCounter, at_least: int | None = None) -> Exponent | None:
    """Of one memory counter; never an interval, for memory is not replicated enough. 0 B has no logarithm and is left out."""
    points = {s.cell.problem.N: value for s in series if (value := counter.per_sample(s))}
    chosen = _chosen(points, at_least)
    return Exponent(slope({N: points[N] for N in chosen}), None, chosen) if chosen else None


def slope(points: Mapping[int, float]) -> float:
    """Least squares of log y on log N; at least two lengths and positive values."""
    return math.fsum(weight * math.log(y) for weight, y in zip(_weights(tuple(points)), points.values(), strict=True))


def fit_interval(points: Mapping[int, float]) -> Interval:
    """95 % t interval of the slope by how far the points lie from its line; at least three lengths and positive values."""
    value, y = slope(points), [math.log(y) for y in points.values()]
    x_mean, y_mean = statistics.fmean(map(math.log, points)), statistics.fmean(y)
    residuals = math.fsum((at - y_mean - value * (math.log(N) - x_mean)) ** 2 for N, at in zip(points, y, strict=True))
    squares = math.fsum((math.log(N) - x_mean) ** 2 for N in points)
    df = len(points) - 2
    half = t_quantile(df) * math.sqrt(residuals / df / squares)
    return Interval(value - half, value + half, Spread.INTERVAL)


@lru_cache(maxsize=64)
def _weights(lengths: tuple[int, ...]) -> tuple[float, ...]:
    """By which the slope is a sum over log y: (x - x̄) / Σ (x - x̄)²; found once for all replicates."""
    x = [math.log(N) for N in lengths]
    mean = statistics.fmean(x)
    square = math.fsum((each - mean) ** 2 for each in x)
    return tuple((each - mean) / square for each in x)


def _chosen(points: Mapping[int, object], at_least: int | None) -> tuple[int, ...]:
    """The lengths of the fit, or none."""
    lengths = sorted(points)
    if at_least is not None:
        lengths = [N for N in lengths if at_least <= N]
    else:
        lengths = lengths[-max(FEWEST, math.ceil(len(lengths) / 2)) :]
    return tuple(lengths) if len(lengths) >= FEWEST else ()


def _interval(cells: Sequence[CellSummary]) -> Interval | None:
    """By t over the slopes of the replicates that every length has."""
    common = set.intersection(*(set(s.medians) for s in cells))
    if len(common) < ENOUGH:
        return None
    return t_interval([slope({s.cell.problem.N: s.times[r] for s in cells}) for r in sorted(common)])
