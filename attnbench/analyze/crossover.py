"""The lengths at which two methods change places: from which on one of them is below the other.

Between neighbouring lengths the logarithm of their ratio is taken to be straight against log N.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import Quantity
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH, Interval, Spread, t_quantile
from attnbench.analyze.verdict import LEVEL, adjusted, ratio

Values = Mapping[int, Mapping[int, float]]
"""By length and replicate number, positive; less is better."""
NOT_PLANNED, NO_FIGURE, NO_RATIO = "not in the suite", "n/a", "not above 0"


class Lead(StrEnum):
    """Who is below at one length."""

    OF = "of"
    OVER = "over"
    TIE = "tie"
    """It cannot be told."""


@dataclass(frozen=True)
class Crossing:
    """One change of places."""

    length: float
    """Interpolated; no length that was measured."""
    bracket: tuple[int, int]
    """The nearest measured lengths at which it can be told who is below."""
    interval: Interval | None
    """95 %; None of fewer replicates than an interval takes."""
    gained: bool
    """Whether `of` is below from here on, or was up to here."""

    @property
    def reach(self) -> float:
        """How far it may be from N, as a factor: 1.1 for 10 % each way. Without an interval, by the bracket."""
        if self.interval is None:
            return math.sqrt(self.bracket[1] / self.bracket[0])
        return max(self.interval.high / self.length, self.length / self.interval.low)


@dataclass(frozen=True)
class Crossover:
    """Two methods over the lengths at which both have values."""

    leads: Mapping[int, Lead]
    """By rising length."""
    crossings: tuple[Crossing, ...]
    replicates: int
    """Pairs at the length that has the fewest; 0 where no length has any."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """All that were compared, rising."""
        return tuple(self.leads)

    @property
    def told(self) -> tuple[int, ...]:
        """Lengths at which somebody leads."""
        return tuple(N for N, lead in self.leads.items() if lead is not Lead.TIE)

    @property
    def ties(self) -> tuple[int, ...]:
        """Lengths at which it cannot be told, though the lead does not change hands around them."""
        changing = [crossing.bracket for crossing in self.crossings]
        ties = [N for N, lead in self.leads.items() if lead is Lead.TIE]
        return tuple(N for N in ties if not any(a < N < b for a, b in changing))

    @property
    def stretches(self) -> list[tuple[Crossing | None, Crossing | None]]:
        """Where `of` is below: from one crossing to the next, from the shortest length on (None), or to the longest (None)."""
        leads = [self.leads[N] for N in self.told]
        first: list[Crossing | None] = [None] if leads[:1] == [Lead.OF] else []
        last: list[Crossing | None] = [None] if leads[-1:] == [Lead.OF] else []
        edges = [*first, *self.crossings, *last]
        return list(zip(edges[::2], edges[1::2], strict=True))


def crossover(of: Values, over: Values, enough: int = ENOUGH) -> Crossover:
    """Compare two methods of one run, paired by replicate number: they were interleaved. ValueError for a value of 0.

    From `enough` replicates on somebody leads at a length where the paired t test, adjusted over the lengths, says so;
    with fewer, where all replicates agree.
    """
    common = {N: sorted(of[N].keys() & over[N].keys()) for N in sorted(of.keys() & over.keys())}
    logs = {N: {r: math.log(of[N][r] / over[N][r]) for r in numbers} for N, numbers in common.items() if numbers}
    means = {N: statistics.fmean(values.values()) for N, values in logs.items()}
    tested = [N for N, values in logs.items() if len(values) >= enough]
    chances = dict(zip(tested, adjusted([ratio(over[N], of[N], paired=True).p for N in tested]), strict=True))
    leads = {}
    for N, mean in means.items():
        agree = chances[N] <= LEVEL and mean != 0 if N in chances else all(value * mean > 0 for value in logs[N].values())
        leads[N] = Lead.TIE if not agree else Lead.OF if mean < 0 else Lead.OVER
    crossings = []
    for start, end in pairwise(N for N in leads if leads[N] is not Lead.TIE):
        if leads[start] is not leads[end]:
            within = {N: values for N, values in logs.items() if start <= N <= end}
            # where noise makes the mean log-ratio change its sign three times or more, the middle one counts
            turns = [
                _between(a, b, means[a] / (means[a] - means[b]))
                for a, b in pairwise(within)
                if means[a] * means[b] < 0 or (means[b] == 0 and means[a] != 0)
            ]
            middle = statistics.median_low(turns)
            crossings.append(Crossing(middle, (start, end), _interval(within, middle, enough), leads[end] is Lead.OF))
    return Crossover(leads, tuple(crossings), min(map(len, logs.values()), default=0))


def _between(a: int, b: int, t: float) -> float:
    """Return the length a share t of the way from a to b, in logarithms."""
    return float(a * (b / a) ** t)


def _interval(logs: Mapping[int, Mapping[int, float]], N: float, enough: int) -> Interval | None:
    """Return all lengths at which a t test does not reject that both methods are equal (Fieller 1954).

    At a share t of the way from length a to b, replicate r has the log-ratio (1 - t) d_r(a) + t d_r(b). Under normal
    errors a t test on these is exact whatever the two lengths have in common, and so is the set of all t that it does
    not reject. It covers the truth in 94.9 / 95.0 / 95.2 % at 5 / 10 / 20 replicates with 3 % lognormal noise between
    processes, where a percentile bootstrap over replicates comes to 84 / 89 / 92 %: its resamples spread too little.
    What a bend of the curve between two measured lengths does is not in it.
    """
    common = sorted(set.intersection(*(set(values) for values in logs.values())))
    if len(common) < enough:
        return None
    ends = [
        _between(a, b, t)
        for a, b in pairwise(logs)
        for t in _undecided([logs[a][r] for r in common], [logs[b][r] for r in common])
    ]
    return Interval(min([N, *ends]), max([N, *ends]), Spread.INTERVAL)


def _undecided(first: Sequence[float], last: Sequence[float]) -> list[float]:
    """Find the ends, if any, of the set of t in 0 … 1 at which the mean of first + t (last - first) is not told from 0."""
    reach = t_quantile(len(first) - 1) ** 2 / len(first)
    steps = [b - a for a, b in zip(first, last, strict=True)]
    at, slope = statistics.fmean(first), statistics.fmean(steps)
    # mean² ≤ reach x variance, as a t² + b t + c ≤ 0
    a = slope**2 - reach * statistics.covariance(steps, steps)
    b = 2 * (at * slope - reach * statistics.covariance(first, steps))
    c = at**2 - reach * statistics.covariance(first, first)
    ends = [t for t, value in ((0.0, c), (1.0, a + b + c)) if value <= 0]
    if (square := b * b - 4 * a * c) >= 0:
        # both roots without cancellation
        q = -(b + math.copysign(math.sqrt(square), b)) / 2
        ends += [top / bottom for top, bottom in ((q, a), (c, q)) if bottom != 0]
    return [t for t in ends if 0 <= t <= 1]


@dataclass(frozen=True)
class Versus:
    """Method `of` against method `over` of one section, by one quantity; both are labels."""

    section: Section
    of: str
    over: str
    quantity: Quantity

    @cached_property
    def crossover(self) -> Crossover:
        """Compare the two over all lengths at which both have figures, each above 0."""
        of, over = (
            {N: found for N in self.section.lengths if (found := self.quantity.ranked(self.section.at(label, N)))}
            for label in (self.of, self.over)
        )
        return crossover(of, over, self.quantity.enough)

    @property
    def gaps(self) -> dict[int, tuple[str, str]]:
        """Return by each length that is not compared, why `of` and `over` have no figure above 0; "" of one that has."""
        uncompared = (N for N in self.section.lengths if N not in self.crossover.leads)
        found = {N: (self._status(self.of, N), self._status(self.over, N)) for N in uncompared}
        return {N: statuses for N, statuses in found.items() if any(statuses)}

    def _status(self, label: str, N: int) -> str:
        cell = self.section.at(label, N)
        if cell is None:
            return NOT_PLANNED
        if not cell.ok:
            return cell.status
        return "" if self.quantity.ranked(cell) else NO_RATIO if self.quantity.values(cell) else NO_FIGURE

    @property
    def cells(self) -> tuple[CellSummary, ...]:
        """Return the cells of both methods."""
        return (*self.section.series[self.of], *self.section.series[self.over])
