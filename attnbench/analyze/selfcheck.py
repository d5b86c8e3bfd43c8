"""The analysis of a selfcheck: how often one method is told apart from itself, and which slow-down would have been found.

A slow-down is put into the medians that were measured: those of side B are multiplied.
"""

import math
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from attnbench.analyze.cells import summarize
from attnbench.analyze.sections import grouped
from attnbench.analyze.statistics import Interval, variance, wilson
from attnbench.analyze.verdict import LEVEL, Ratio, Verdict, judge, ratio
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Measured
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck

FEWEST = 100
"""Verdicts below which a hit rate of nine in ten is known too badly to be the noise floor of a machine."""
_COUNTS = (3, 5, 10, 20)
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
    """A count of verdicts, out of how many."""

    hits: int
    of: int

    @property
    def share(self) -> float | None:
        """Return the share of hits; None where there are no verdicts."""
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> Interval:
        """Return the 95 % interval of the share, by Wilson."""
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
    """The rates of false alarms and of slow-downs found among verdicts that rest on so many replicates a side."""

    replicates: int
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
        """Count the verdicts that say FASTER or SLOWER."""
        return Hits(self.faster.hits + self.slower.hits, self.slower.of)


@dataclass(frozen=True)
class Calibration:
    """The behaviour of verdicts on this machine; all of it from the stored medians."""

    plan: Selfcheck
    margin: float
    paired: tuple[Power, ...]
    """By rising replicates; the last one is what was planned. Sides that ran one after the other, and are paired."""
    unpaired: tuple[Power, ...]
    """The same processes, as two stored runs would be compared."""
    together: Hits
    """Alarms among all verdicts where they are judged as one suite."""
    overall: Ratio | None
    """B over A, every pair of processes of all verdicts."""
    seconds: float | None
    """The time of a call: geometric mean of all medians."""
    processes: float | None
    """Standard deviation of the log medians of one side and round."""
    rounds: float | None
    """The slowest round's geometric mean over the fastest one's, less 1."""
    lost: int
    """Processes without a median."""
    reason: str
    """Why the first of them was lost; empty where none was lost."""
    flags: Mapping[str, int]
    """How many processes were marked `noisy`, `loaded`, …"""

    @property
    def measured(self) -> int:
        """Return the number of processes with a median."""
        return self.plan.processes - self.lost

    @property
    def floor(self) -> tuple[tuple[int, float], ...]:
        """Return by replicates a side the slow-down that an interleaved comparison tells from chance nine times in ten."""
        if self.plan.injected or self.plan.verdicts < FEWEST:
            return ()
        effects = ((p.replicates, smallest(p.bare, SURE).effect) for p in self.paired if p.slower.of >= FEWEST)
        return tuple((replicates, effect) for replicates, effect in effects if effect is not None)


def calibrate(plan: Selfcheck, records: Sequence[Record], margin: float) -> Calibration:
    """Work out all figures from the records alone; any number of them, also none."""
    cells = summarize(plan.sides, records)
    medians = {number: median for cell in cells for number, median in cell.medians.items() if number < plan.processes}
    counts = [count for count in _COUNTS if count < plan.replicates] + [plan.replicates]
    # what was planned gives several verdicts of fewer replicates, which are disjoint
    sides = {
        count: [
            found
            for verdict in range(plan.verdicts)
            for start in range(0, plan.replicates - count + 1, count)
            if (found := _sides(plan, medians, verdict, range(start, start + count)))
        ]
        for count in counts
    }
    suite = judge([ratio(a, b, paired=True) for a, b in sides[plan.replicates]], margin)
    both: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for number, median in medians.items():
        both[plan.place(number).side][plan.pair(number)] = median
    lost = plan.processes - len(medians)
    processes, rounds = _spreads(plan, medians)
    return Calibration(
        plan=plan,
        margin=margin,
        paired=tuple(power(sides[count], count, margin, paired=True) for count in counts),
        unpaired=tuple(power(sides[count], count, margin, paired=False) for count in counts),
        together=Hits(sum(verdict in {Verdict.FASTER, Verdict.SLOWER} for verdict in suite), len(suite)),
        overall=ratio(*both, paired=True) if both[0].keys() & both[1].keys() else None,
        seconds=math.exp(statistics.fmean(map(math.log, medians.values()))) if medians else None,
        processes=processes,
        rounds=rounds,
        lost=lost,
        reason=next((f"{cell.status}: {cell.reason}" for cell in cells if not cell.ok), "") if lost else "",
        flags=_flags(records, medians),
    )


def looked_at(plan: Selfcheck, records: Sequence[Record], count: int) -> list[Ratio]:
    """Return B over A of every verdict after its first so many processes a side, paired; of those that lack none."""
    cells = summarize(plan.sides, records)
    medians = {number: median for cell in cells for number, median in cell.medians.items() if number < plan.processes}
    every = (_sides(plan, medians, verdict, range(count)) for verdict in range(plan.verdicts))
    return [ratio(*sides, paired=True) for sides in every if sides]


def _sides(plan: Selfcheck, medians: Mapping[int, float], verdict: int, rounds: range) -> Sides | None:
    """Return A and B of one verdict over some of its rounds; None where it lacks a process."""
    a, b = ({r: medians.get(plan.number(Place(verdict, side, r)), math.nan) for r in rounds} for side in (0, 1))
    return None if any(map(math.isnan, (*a.values(), *b.values()))) else (a, b)


def _spreads(plan: Selfcheck, medians: Mapping[int, float]) -> tuple[float | None, float | None]:
    """Return `processes` and `rounds` of a Calibration.

    The first is pooled over rounds and sides, so that drift and a planned slow-down do not count.
    """
    logs = [(plan.place(number), math.log(median)) for number, median in medians.items()]
    by_side = grouped(((place.replicate, place.side), log) for place, log in logs)
    by_round = grouped((place.replicate, log) for place, log in logs)
    groups = [group for group in by_side.values() if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(variance(group) * (len(group) - 1) for group in groups)
    means = [statistics.fmean(group) for group in by_round.values()]
    processes = math.sqrt(squares / degrees) if degrees else None
    return processes, math.expm1(max(means) - min(means)) if len(means) > 1 else None


def _flags(records: Iterable[Record], known: Mapping[int, float]) -> dict[str, int]:
    """Count the processes by flag; of one that was repeated, the last attempt counts."""
    found: dict[int, tuple[str, ...]] = {}
    for record in records:
        if record.job.phase is Pass.TIME and record.job.replicate in known and isinstance(record.outcome, Measured):
            found[record.job.replicate] = record.outcome.flags
    return dict(sorted(Counter(flag for flags in found.values() for flag in flags).items()))


def power(sides: Sequence[Sides], replicates: int, margin: float, *, paired: bool) -> Power:
    """Judge each verdict by itself, as in a suite of one cell. No verdicts give no hits."""
    trials = [_trial(a, b, paired=paired) for a, b in sides]
    ratios = [trial(0.0) for trial in trials]
    still = [judge([each], margin)[0] for each in ratios]
    widths = [math.sqrt(each.interval.high / each.interval.low) - 1 for each in ratios if each.interval]
    return Power(
        replicates=replicates,
        faster=Hits(still.count(Verdict.FASTER), len(still)),
        slower=Hits(still.count(Verdict.SLOWER), len(still)),
        significant=Hits(sum(each.p <= LEVEL for each in ratios), len(still)),
        same=Hits(still.count(Verdict.SAME), len(still)),
        sought=tuple(Hits(sum(_found(trial, at, share) for trial in trials), len(trials)) for share, at in SOUGHT),
        at_margin=_curve(trials, margin),
        bare=_curve(trials, 0.0),
        half_width=statistics.median(widths) if widths else None,
    )


def _trial(a: Mapping[int, float], b: Mapping[int, float], *, paired: bool) -> _Trial:
    return cache(lambda share: ratio(a, {replicate: median * (1 + share) for replicate, median in b.items()}, paired=paired))


def _found(trial: _Trial, margin: float, share: float) -> bool:
    return judge([trial(share)], margin) == [Verdict.SLOWER]


def _curve(trials: Sequence[_Trial], margin: float) -> tuple[Hits, ...]:
    """Return the hits by INJECTED. What finds a slow-down finds every larger one, so the first is searched for."""
    firsts = [bisect_left(INJECTED, x=True, key=partial(_found, trial, margin)) for trial in trials]
    return tuple(Hits(sum(first <= i for first in firsts), len(firsts)) for i in range(len(INJECTED)))


def smallest(hits: Sequence[Hits], share: float) -> Smallest:
    """Return where hit rates by INJECTED, which only rise, reach a share: between two that were tried along a straight line."""
    rates = [each.share or 0.0 for each in hits]
    ends = [each.interval for each in hits]
    # the higher the rate may be, the smaller a slow-down may do
    return Smallest(_reached(rates, share), _reached([i.high for i in ends], share), _reached([i.low for i in ends], share))


def _reached(rates: Sequence[float], share: float) -> float | None:
    at = next((i for i, rate in enumerate(rates) if rate >= share), None)
    if at is None or at == 0:
        return None if at is None else INJECTED[0]
    rise = (share - rates[at - 1]) / (rates[at] - rates[at - 1])
    return INJECTED[at - 1] + rise * (INJECTED[at] - INJECTED[at - 1])
