"""A figure of ours: of one side alone, over another's, or less another's; with the interval that its replicates give."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from attnbench.analyze.published_cells import UnclearError, Wanted
from attnbench.analyze.published_metrics import RATES, Measured, Reading, read
from attnbench.analyze.ratio import ratio
from attnbench.analyze.statistics import Interval, Spread, t_interval
from attnbench.schema.noun import Scalar
from attnbench.schema.published import Ours

FEWEST = 3
"""Replicates from which on there is an interval: with two degrees of freedom a wide one (t = 4.30), and a right one."""


class Kind(StrEnum):
    """What is made of the sides."""

    ALONE = "alone"
    RATIO = "ratio"
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % t interval; no interval of what is exact, nor below three replicates.

    Of a batch that was searched for the interval is where it may lie: from what fitted to what did not. Of memory's growth it
    is that of the fit over the lengths.
    """

    value: float
    interval: Interval | None
    replicates: int
    """Pairs, where two sides are compared."""
    kind: Kind
    metric: str
    unit: str = ""
    exact: bool = False
    about: str = ""


def figure(ours: Ours, pinned: Mapping[str, Scalar], measured: Measured) -> Figure:
    """Raises NoFigureError, with a reason in words."""
    of = read(ours.metric, Wanted(ours.of, ours.workload, pinned), measured)
    other = ours.over or ours.less
    if other is None:
        return _alone(of)
    against = read(ours.metric, Wanted(other, ours.workload, pinned, loosely=True), measured)
    return _ratio(of, against) if ours.over else _difference(of, against)


def _alone(of: Reading) -> Figure:
    """Of times and rates the geometric mean, as their intervals are of logarithms; of all others the plain one."""
    values = list(of.values.values())
    if of.below is not None:
        return Figure(values[0], Interval(values[0], of.below, Spread.BAND), 1, Kind.ALONE, of.metric, of.unit)
    if of.interval is not None:
        return Figure(values[0], of.interval, 1, Kind.ALONE, of.metric, of.unit, about=of.about)
    if of.metric not in RATES:
        return _figure(of, Kind.ALONE, values, _plainly)
    return _figure(of, Kind.ALONE, values, _by_logarithms)


def _ratio(of: Reading, over: Reading) -> Figure:
    """Paired by replicate number: the mean log-ratio, for the sides were measured in turns."""
    if any(value <= 0 for side in (of, over) for value in side.values.values()):
        raise UnclearError(f"a {of.metric} of 0 or less has no ratio to anything")
    if lone := of.lone or over.lone:
        raise UnclearError(lone)
    _common(of, over)
    found = ratio(over.values, of.values, paired=True)
    interval = found.interval if found.replicates >= FEWEST and not of.exact else _searched(of, over)
    return Figure(found.value, interval, found.replicates, Kind.RATIO, of.metric, "×", of.exact, _about(of, over))


def _searched(of: Reading, over: Reading) -> Interval | None:
    """Where the ratio of two numbers lies that were searched for, each known to lie between two others."""
    if of.below is None or over.below is None:
        return None
    return Interval(of.values[0] / over.below, of.below / over.values[0], Spread.BAND)


def _difference(of: Reading, less: Reading) -> Figure:
    values = [of.values[r] - less.values[r] for r in _common(of, less)]
    found = _figure(of, Kind.DIFFERENCE, values, _plainly)
    return replace(found, about=_about(of, less))


def _common(of: Reading, other: Reading) -> list[int]:
    """Replicate numbers that both sides have."""
    if common := sorted(of.values.keys() & other.values.keys()):
        return common
    raise UnclearError("no replicate has numbers of both sides")


def _about(of: Reading, other: Reading) -> str:
    return of.about if of.about == other.about else "; ".join(filter(None, (of.about, f"the other: {other.about}")))


_Mean = Callable[[Sequence[float]], tuple[float, Interval | None]]


def _figure(of: Reading, kind: Kind, values: Sequence[float], mean: _Mean) -> Figure:
    value, interval = mean(values)
    return Figure(value, None if of.exact else interval, len(values), kind, of.metric, of.unit, of.exact, of.about)


def _plainly(values: Sequence[float]) -> tuple[float, Interval | None]:
    return statistics.fmean(values), t_interval(values) if len(values) >= FEWEST else None


def _by_logarithms(values: Sequence[float]) -> tuple[float, Interval | None]:
    mean, interval = _plainly([math.log(value) for value in values])
    ends = interval and Interval(math.exp(interval.low), math.exp(interval.high), Spread.INTERVAL)
    return math.exp(mean), ends
