"""The growth of time and memory with length: N^x, by least squares of log y on log N.

One point per length; y per sample of the batch, so that a batch that shrinks with N does not hide the growth.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.polynomial import polyfit

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import Quantity
from attnbench.analyze.statistics import ENOUGH, Interval, Spread, t_interval, t_quantile, variance

FEWEST = 3
"""Lengths below which no exponent is fitted."""


@dataclass(frozen=True)
class Exponent:
    """x of N^x over `lengths`; an interval only from five replicates on."""

    value: float
    interval: Interval | None
    lengths: tuple[int, ...]


def exponent(series: Sequence[CellSummary], quantity: Quantity) -> Exponent | None:
    """Fit the growth of a quantity to the cells of one method, which differ in N only; cells that failed do not count.

    Over the upper half of the lengths, at least three. None with fewer than three, and of what does not grow as a power. The
    interval is that of the replicates' slopes, widened where the slope of the medians lies outside of it. 0 B has no logarithm:
    shorter lengths with it are left out, and where one lies among those that are fitted nothing is.
    """
    known = {s.cell.problem.N: s for s in series if quantity.grows and quantity.values(s)}
    points = {N: s for N, s in known.items() if all(quantity.values(s).values())}
    lengths = sorted(points)
    if len(lengths) < FEWEST:
        return None
    upper = lengths[-max(FEWEST, math.ceil(len(lengths) / 2)) :]
    if any(upper[0] < N for N in known.keys() - points.keys()):
        return None
    value = slope({N: found.value for N in upper if (found := quantity.estimate(points[N])) is not None})
    slopes = slopes_by_replicate({N: quantity.values(points[N]) for N in upper})
    if len(slopes) < ENOUGH:
        return Exponent(value, None, tuple(upper))
    mean = t_interval(list(slopes.values()))
    return Exponent(value, Interval(min(mean.low, value), max(mean.high, value), mean.kind), tuple(upper))


def slope(points: Mapping[int, float]) -> float:
    """Fit log y to log N by least squares; at least two lengths and positive values."""
    return statistics.linear_regression([*map(math.log, points)], [*map(math.log, points.values())]).slope


def fit_interval(points: Mapping[int, float]) -> Interval:
    """Return the slope's 95 % t interval by how far points lie from its line; at least three lengths and positive values."""
    x, y = [math.log(N) for N in points], [math.log(value) for value in points.values()]
    value, intercept = statistics.linear_regression(x, y)
    residuals = math.fsum((at - intercept - value * N) ** 2 for N, at in zip(x, y, strict=True))
    df = len(x) - 2
    half = t_quantile(df) * math.sqrt(residuals / df / (variance(x) * (len(x) - 1)))
    return Interval(value - half, value + half, Spread.INTERVAL)


def slopes_by_replicate(values: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """Return the slope of each replicate that every length has, from values by length and replicate."""
    common = sorted(set.intersection(*map(set, values.values())))
    logs = np.log([[at[replicate] for replicate in common] for at in values.values()])
    _, slopes = polyfit(np.log([*values]), logs, 1)
    return dict(zip(common, slopes.tolist(), strict=True))
