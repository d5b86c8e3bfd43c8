"""Power: of verdicts on two sides that are alike, how many are false alarms, and how many find a slow-down of known size.

A slow-down is put into the medians that were measured: those of side B are multiplied.
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.statistics import Interval, wilson
from attnbench.analyze.verdict import LEVEL, Verdict, judge

INJECTED = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Slow-downs that are tried; 0 leaves side B as it is."""
SOUGHT = ((0.05, 0.025), (0.1, 0.05))
"""Slow-downs that everybody asks for, each with the margin at which it is looked for: half of it."""
SURE, LIKELY = 0.9, 0.8
"""Shares of verdicts from which on a slow-down counts as found."""

Sides = tuple[Mapping[int, float], Mapping[int, float]]
"""Of one verdict: medians by replicate number, A and B."""
_Trial = Callable[[float], Ratio]
"""One verdict: what comes out where side B is slower by a share."""


@dataclass(frozen=True)
class Hits:
    """How many verdicts of how many."""

    hits: int
    of: int

    @property
    def share(self) -> float | None:
        """None where there are no verdicts."""
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> Interval:
        """Of the share: Wilson's, 95 %."""
        return wilson(self.hits, self.of)


@dataclass(frozen=True)
class Smallest:
    """The smallest slow-down that is found often enough, with the ends that the hit rates' intervals give it.

    None where even the largest that was tried is not found as often.
    """

    effect: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Power:
    """Of verdicts that rest on so many replicates a side."""

    replicates: int
    paired: bool
    faster: Hits
    """At the margin, side B left as it is: false alarms, where both sides are the same."""
    slower: Hits
    significant: Hits
    """As above, without a margin, either way: what the level of 5 % comes to."""
    same: Hits
    """Verdicts that say SAME at the margin."""
    sought: tuple[Hits, ...]
    """By SOUGHT: found SLOWER."""
    at_margin: tuple[Hits, ...]
    """By INJECTED: found SLOWER at the margin."""
    bare: tuple[Hits, ...]
    """By INJECTED: found SLOWER without a margin."""
    half_width: float | None
    """Median over the verdicts, of the 95 % interval of the ratio, as a share."""

    @property
    def alarms(self) -> Hits:
        """FASTER or SLOWER."""
        return Hits(self.faster.hits + self.slower.hits, self.slower.of)


def power(sides: Sequence[Sides], replicates: int, margin: float, *, paired: bool) -> Power:
    """Each verdict is judged by itself, as in a suite of one cell. No verdicts give no hits."""
    trials = [_trial(a, b, paired=paired) for a, b in sides]
    ratios = [trial(0.0) for trial in trials]
    still = [judge([each], margin)[0] for each in ratios]
    return Power(
        replicates=replicates,
        paired=paired,
        faster=Hits(still.count(Verdict.FASTER), len(still)),
        slower=Hits(still.count(Verdict.SLOWER), len(still)),
        significant=Hits(sum(each.p <= LEVEL for each in ratios), len(still)),
        same=Hits(still.count(Verdict.SAME), len(still)),
        sought=tuple(Hits(sum(_found(trial(share), at) for trial in trials), len(trials)) for share, at in SOUGHT),
        at_margin=_curve(trials, margin),
        bare=_curve(trials, 0.0),
        half_width=_half_width(ratios),
    )


def smallest(hits: Sequence[Hits], share: float) -> Smallest:
    """Where hit rates by INJECTED, which only rise, reach a share: between two that were tried along a straight line."""
    rates = [each.share or 0.0 for each in hits]
    ends = [each.interval for each in hits]
    # the higher the rate may be, the smaller a slow-down may do
    return Smallest(_reached(rates, share), _reached([i.high for i in ends], share), _reached([i.low for i in ends], share))


def _trial(a: Mapping[int, float], b: Mapping[int, float], *, paired: bool) -> _Trial:
    return cache(lambda share: ratio(a, {replicate: median * (1 + share) for replicate, median in b.items()}, paired=paired))


def _curve(trials: Sequence[_Trial], margin: float) -> tuple[Hits, ...]:
    """By INJECTED. What finds a slow-down finds every larger one, so the first is searched for."""
    firsts = [_first(trial, margin) for trial in trials]
    return tuple(Hits(sum(first <= i for first in firsts), len(firsts)) for i in range(len(INJECTED)))


def _first(trial: _Trial, margin: float) -> int:
    """Where in INJECTED it begins to be found; past the end where it never is."""
    return bisect_left(INJECTED, x=True, key=lambda share: _found(trial(share), margin))


def _found(ratio: Ratio, margin: float) -> bool:
    return judge([ratio], margin) == [Verdict.SLOWER]


def _half_width(ratios: Sequence[Ratio]) -> float | None:
    widths = [math.sqrt(each.interval.high / each.interval.low) - 1 for each in ratios if each.interval]
    return statistics.median(widths) if widths else None


def _reached(rates: Sequence[float], share: float) -> float | None:
    at = next((i for i, rate in enumerate(rates) if rate >= share), None)
    if at is None or at == 0:
        return None if at is None else INJECTED[0]
    rise = (share - rates[at - 1]) / (rates[at] - rates[at - 1])
    return INJECTED[at - 1] + rise * (INJECTED[at] - INJECTED[at - 1])
