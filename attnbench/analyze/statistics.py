"""The few statistics that are used, on replicate medians only; no sample is ever deleted."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ENOUGH = 5
"""Replicates from which on an interval is given; fewer give a band."""

# Student's t, 0.975 quantile (two-sided 95 %), for 1 to 30 degrees of freedom
_T_975 = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_Z_975 = 1.959963984540054


class Spread(StrEnum):
    """What `low` and `high` are: a 95 % t interval, or only the smallest and largest replicate."""

    INTERVAL = "interval"
    BAND = "band"


@dataclass(frozen=True)
class Interval:
    """Two ends and what they mean, in the unit of what they bound."""

    low: float
    high: float
    kind: Spread

    def overlaps(self, other: "Interval") -> bool:
        """Whether the two have a point in common."""
        return self.low <= other.high and other.low <= self.high

    def times(self, factor: float) -> "Interval":
        """In another unit."""
        return Interval(self.low * factor, self.high * factor, self.kind)


def t_quantile(df: int) -> float:
    """Student's t at 0.975 for `df` degrees of freedom; above 30 by Cornish-Fisher, right to four digits.

    Abramowitz and Stegun 1964, 26.7.5. ValueError below 1.
    """
    if df < 1:
        raise ValueError(f"{df} degrees of freedom")
    if df <= len(_T_975):
        return _T_975[df - 1]
    z = _Z_975
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / df + second / df**2


def t_interval(values: Sequence[float]) -> Interval:
    """95 % interval of the mean; at least two values."""
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return Interval(mean - half, mean + half, Spread.INTERVAL)


def spread(medians: Sequence[float]) -> Interval:
    """Of positive replicate medians: t interval of the mean logarithm, back-transformed; below five, least and greatest."""
    if len(medians) < ENOUGH:
        return Interval(min(medians), max(medians), Spread.BAND)
    logs = t_interval([math.log(value) for value in medians])
    return Interval(math.exp(logs.low), math.exp(logs.high), Spread.INTERVAL)


def outliers(samples: Sequence[float]) -> int:
    """How many lie more than 1.5 interquartile ranges outside the quartiles (Tukey 1977); counted, never deleted."""
    if len(samples) < 4:
        return 0
    low, _, high = statistics.quantiles(samples, n=4)
    reach = 1.5 * (high - low)
    return sum(value < low - reach or value > high + reach for value in samples)
