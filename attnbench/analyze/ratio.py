"""Ratio: how two sets of replicate medians compare, with what chance alone could have done."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.statistics import Interval, Spread, t_quantile, t_two_sided, variance

_TWO = 2
"""Replicates of a side below which nothing is known of their spread."""


@dataclass(frozen=True)
class Ratio:
    """New over old: above 1 the new one takes more."""

    value: float
    interval: Interval | None
    """95 %, by t; None below two replicates a side."""
    p: float
    """Two-sided, of no difference; 1.0 where it cannot be told."""
    paired: bool
    replicates: int
    """Pairs; or, unpaired, those of the smaller side."""


def ratio(old: Mapping[int, float], new: Mapping[int, float], *, paired: bool) -> Ratio:
    """Of positive medians by replicate number: t interval of the mean log-ratio.

    Paired by number, for replicates that were interleaved; else by Welch 1947, as the two sides may spread differently.
    ValueError where a side, or the set of pairs, is empty.
    """
    if paired:
        common = sorted(old.keys() & new.keys())
        return _paired([math.log(new[r] / old[r]) for r in common])
    return _unpaired([math.log(value) for value in old.values()], [math.log(value) for value in new.values()])


def _paired(logs: Sequence[float]) -> Ratio:
    if not logs:
        raise ValueError("no replicate number is common to both sides")
    error = math.sqrt(variance(logs) / len(logs)) if len(logs) >= _TWO else math.nan
    return _ratio(statistics.fmean(logs), error, len(logs) - 1, paired=True, replicates=len(logs))


def _unpaired(old: Sequence[float], new: Sequence[float]) -> Ratio:
    if not old or not new:
        raise ValueError("a side without replicates")
    difference, count = statistics.fmean(new) - statistics.fmean(old), min(len(old), len(new))
    if count < _TWO:
        return _ratio(difference, math.nan, 0, paired=False, replicates=count)
    squares = [variance(side) / len(side) for side in (old, new)]
    total = sum(squares)
    # Welch-Satterthwaite; never below the smaller side's, where squares of squares vanish in rounding
    parts = sum(square**2 / (len(side) - 1) for square, side in zip(squares, (old, new), strict=True))
    df = max(total**2 / parts if parts else 0.0, count - 1)
    return _ratio(difference, math.sqrt(total), df, paired=False, replicates=count)


def _ratio(mean: float, error: float, df: float, *, paired: bool, replicates: int) -> Ratio:
    value = math.exp(mean)
    if math.isnan(error):
        return Ratio(value, None, 1.0, paired, replicates)
    half = t_quantile(df) * error
    interval = Interval(math.exp(mean - half), math.exp(mean + half), Spread.INTERVAL)
    return Ratio(value, interval, _p(mean, error, df), paired, replicates)


def _p(mean: float, error: float, df: float) -> float:
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return t_two_sided(mean / error, df)
