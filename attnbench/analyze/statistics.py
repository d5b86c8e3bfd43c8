"""The few statistics that are used, on replicate medians only; no sample is ever deleted."""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import special

ENOUGH = 5
"""Replicates from which on an interval is given; fewer give a band."""


class Spread(StrEnum):
    """The meaning of `low` and `high`: a 95 % t interval, the least and greatest replicate, or twice a number that is exact."""

    INTERVAL = "interval"
    BAND = "band"
    EXACT = "exact"


@dataclass(frozen=True)
class Interval:
    """Two ends and what they mean, in the unit of what they bound."""

    low: float
    high: float
    kind: Spread

    def times(self, factor: float) -> "Interval":
        """Return the interval in another unit."""
        return Interval(self.low * factor, self.high * factor, self.kind)


@dataclass(frozen=True)
class Estimate:
    """A number of a cell, and where it lies as far as its replicates tell."""

    value: float
    interval: Interval

    @classmethod
    def exact(cls, value: float) -> "Estimate":
        """Return a number that was read once, or counted."""
        return cls(value, Interval(value, value, Spread.EXACT))

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; of what is exact twice the value."""
        return self.interval.low, self.interval.high

    @property
    def is_exact(self) -> bool:
        """Say whether there is no range to be shown."""
        return self.interval.kind is Spread.EXACT

    def times(self, factor: float) -> "Estimate":
        """Return the number in another unit."""
        return Estimate(self.value * factor, self.interval.times(factor))

    def inverse(self) -> "Estimate":
        """Return 1 over the number: the rate, where it is a time."""
        low, high = self.ends
        return Estimate(1 / self.value, Interval(1 / high, 1 / low, self.interval.kind))

    def rest(self) -> "Estimate":
        """Return what a share leaves of 1."""
        low, high = self.ends
        return Estimate(1 - self.value, Interval(1 - high, 1 - low, self.interval.kind))


def t_quantile(df: float) -> float:
    """Return Student's t at 0.975 (two-sided 95 %) for `df` degrees of freedom, not necessarily whole. ValueError below 1."""
    if not df >= 1:
        raise ValueError(f"{df} degrees of freedom")
    return float(special.stdtrit(df, 0.975))


def t_two_sided(t: float, df: float) -> float:
    """Return the probability of a Student's t at least as far from 0 as this one."""
    return float(2 * special.stdtr(df, -abs(t)))


def t_reached(p: float, df: float) -> float:
    """Return the t whose two-sided probability is p: what `t_two_sided` takes back."""
    return float(-special.stdtrit(df, p / 2))


def wilson(hits: int, of: int) -> Interval:
    """Return the 95 % interval of a share (Wilson 1927); all that is possible where nothing was tried."""
    if of == 0:
        return Interval(0.0, 1.0, Spread.INTERVAL)
    # it takes a third of a second to import, which commands without such a share need not wait for
    from scipy.stats import binomtest

    found = binomtest(hits, of).proportion_ci(method="wilson")
    return Interval(float(found.low), float(found.high), Spread.INTERVAL)


def variance(values: Sequence[float]) -> float:
    """Return the variance of at least two numbers; the standard library's is exact and takes twenty times as long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def t_interval(values: Sequence[float]) -> Interval:
    """Return the 95 % interval of the mean; at least two values."""
    half = t_quantile(len(values) - 1) * math.sqrt(variance(values) / len(values))
    mean = statistics.fmean(values)
    return Interval(mean - half, mean + half, Spread.INTERVAL)


def spread(medians: Sequence[float]) -> Interval:
    """Return the t interval of the mean logarithm of positive numbers, back-transformed; of fewer than five their range."""
    if len(medians) < ENOUGH:
        return Interval(min(medians), max(medians), Spread.BAND)
    logs = t_interval([math.log(value) for value in medians])
    return Interval(math.exp(logs.low), math.exp(logs.high), Spread.INTERVAL)


def by_factors(values: Sequence[float]) -> Estimate:
    """Return the median of positive replicates with their spread, which is widened where the median lies outside of it.

    From nine replicates on it may, for the interval is that of the mean logarithm: of two kinds of processes, most are of one.
    """
    median, found = statistics.median(values), spread(values)
    return Estimate(median, Interval(min(found.low, median), max(found.high, median), found.kind))


def by_sums(values: Sequence[float], bounds: tuple[float, float] = (-math.inf, math.inf), enough: int = ENOUGH) -> Estimate:
    """Return the mean of the replicates with its t interval, cut off at the bounds; of fewer than `enough`, their range."""
    found = t_interval(values) if len(values) >= enough else Interval(min(values), max(values), Spread.BAND)
    return Estimate(statistics.fmean(values), Interval(max(bounds[0], found.low), min(bounds[1], found.high), found.kind))


def outliers(rising: Sequence[float]) -> int:
    """Count the sorted samples that lie over 1.5 interquartile ranges outside the quartiles (Tukey 1977); none is dropped."""
    count = len(rising)
    if count < 4:
        return 0
    # a quartile lies between two samples, as `statistics.quantiles` has it, which is slow in its generality
    a, rest = divmod(count + 1, 4)
    low = (rising[a - 1] * (4 - rest) + rising[a] * rest) / 4
    b, rest = divmod(3 * (count + 1), 4)
    high = (rising[b - 1] * (4 - rest) + rising[b] * rest) / 4
    reach = 1.5 * (high - low)
    return bisect_left(rising, low - reach) + count - bisect_right(rising, high + reach)
