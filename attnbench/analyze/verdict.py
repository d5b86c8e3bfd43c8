"""Verdicts: how two sets of replicate medians compare, with what chance alone could have done, and what may be said of many."""

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attnbench.analyze.statistics import Interval, Spread, t_quantile, t_two_sided, variance

LEVEL = 0.05
"""Share of false alarms among all alarms that is accepted."""
MARGIN = 0.05
"""Relative effect that is worth a word, where nothing else is said."""
_MOST = 10_000


class Verdict(StrEnum):
    """The verdict on one cell, new against old; the worst first."""

    LOST = "LOST"
    """It used to give numbers, and does no longer: a regression of its own kind."""
    SLOWER = "SLOWER"
    FAILS = "FAILS"
    """Of the methods of one run: this one has no number where the baseline has one."""
    UNCLEAR = "UNCLEAR"
    FASTER = "FASTER"
    GAINED = "GAINED"
    """It gives numbers, and did not before."""
    RUNS = "RUNS"
    """Of the methods of one run: this one has a number where the baseline has none."""
    SAME = "SAME"
    ABSENT = "ABSENT"
    """Numbers on neither side, or the cell is planned on one side only; of methods also where 0 leaves no ratio."""


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
    """Compare positive medians by replicate number: the mean log-ratio with its t interval.

    Paired by number, for replicates that were interleaved; else by Welch 1947, as the two sides may spread differently.
    ValueError where a side, or the set of pairs, is empty.
    """
    if paired:
        sides = [[math.log(new[r] / old[r]) for r in sorted(old.keys() & new.keys())]]
    else:
        sides = [[math.log(value) for value in side.values()] for side in (new, old)]
    count = min(map(len, sides))
    if not count:
        raise ValueError("no replicate number is common to both sides" if paired else "a side without replicates")
    mean = statistics.fmean(sides[0]) - (0.0 if paired else statistics.fmean(sides[1]))
    if count < 2:
        return Ratio(math.exp(mean), None, 1.0, paired, count)
    squares = [variance(side) / len(side) for side in sides]
    error, df = math.sqrt(sum(squares)), float(count - 1)
    if not paired:
        # Welch-Satterthwaite; never below the smaller side's, where squares of squares vanish in rounding
        parts = sum(square**2 / (len(side) - 1) for square, side in zip(squares, sides, strict=True))
        df = max(sum(squares) ** 2 / parts if parts else 0.0, df)
    half = t_quantile(df) * error
    interval = Interval(math.exp(mean - half), math.exp(mean + half), Spread.INTERVAL)
    p = t_two_sided(mean / error, df) if error else float(mean == 0)
    return Ratio(math.exp(mean), interval, p, paired, count)


def judge(ratios: Sequence[Ratio], margin: float = MARGIN, level: float = LEVEL) -> list[Verdict]:
    """Return one verdict a ratio; false discoveries are controlled over all that are given together.

    FASTER or SLOWER: adjusted p ≤ level, and the effect beyond the margin. SAME: the interval lies within the margin.
    UNCLEAR: all else. A margin of 5 % reaches from 1/1.05 to 1.05.
    """
    reach, verdicts = math.log1p(margin), []
    for each, p in zip(ratios, adjusted([each.p for each in ratios]), strict=True):
        if p <= level and abs(math.log(each.value)) > reach:
            verdicts.append(Verdict.SLOWER if each.value > 1 else Verdict.FASTER)
        elif each.interval and -reach <= math.log(each.interval.low) and math.log(each.interval.high) <= reach:
            verdicts.append(Verdict.SAME)
        else:
            verdicts.append(Verdict.UNCLEAR)
    return verdicts


def adjusted(ps: Sequence[float]) -> list[float]:
    """Adjust p values by Benjamini and Hochberg 1995, such that those ≤ q hold at most a share q of false discoveries."""
    # scipy.stats has it too, and takes half a second to import
    found, least = [1.0] * len(ps), 1.0
    for rank, i in reversed([*enumerate(sorted(range(len(ps)), key=ps.__getitem__), 1)]):
        found[i] = least = min(least, ps[i] * len(ps) / rank)
    return found


@dataclass(frozen=True)
class Resolution:
    """The smallest change that is told from chance in the middle cell of a judgement, and in the worst."""

    replicates: int
    """Replicates a side of the cell that has the fewest."""
    typical: float
    """Half of the 95 % interval of a ratio, as a share: differences below it are not told from none."""
    worst: float
    enough: int
    """Replicates a side after which the cell in the middle has an interval as narrow as the margin on either side.

    10,000 stands for that and more.
    """
    enough_for_worst: int


def resolution(ratios: Iterable[Ratio], margin: float) -> Resolution | None:
    """Return what is told from chance, and how many replicates a margin would take; None where no ratio has an interval yet."""
    halves, counts, replicates = [], [], []
    for each in ratios:
        if each.interval is not None:
            n, sides = each.replicates, 1 if each.paired else 2
            half = math.log(each.interval.high / each.interval.low) / 2
            spread = half * math.sqrt(n) / t_quantile(sides * (n - 1))
            halves.append(half)
            # more replicates never reach further
            enough = lambda m, d=spread, s=sides: t_quantile(s * (m - 1)) * d <= math.log1p(margin) * math.sqrt(m)  # noqa: E731
            counts.append(2 + bisect_left(range(2, _MOST), True, key=enough))
            replicates.append(n)
    if not halves:
        return None
    typical, worst = math.expm1(statistics.median(halves)), math.expm1(max(halves))
    return Resolution(min(replicates), typical, worst, statistics.median_low(counts), max(counts))
