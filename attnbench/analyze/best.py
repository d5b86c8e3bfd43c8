"""Who is best at a length, and who cannot be told from it: bold print, stars and sentences all go by this one rule.

By two figures together it is a front, the Pareto front: methods that no other beats both in a cost and in a loss.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from attnbench.analyze.crossover import Lead, Versus
from attnbench.analyze.quantities import Quantity
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate, t_two_sided, variance
from attnbench.analyze.verdict import LEVEL, ratio


@dataclass(frozen=True)
class Best:
    """The methods that have figures at one length, the best first; by geometric means, or where some figure is 0 by means."""

    N: int
    labels: tuple[str, ...]
    """The first, and all that cannot be told from it."""
    behind: tuple[str, ...]
    """All that can."""

    @property
    def alone(self) -> bool:
        """Whether the first is told apart from all others."""
        return len(self.labels) == 1

    @property
    def count(self) -> int:
        """Methods that have figures."""
        return len(self.labels) + len(self.behind)


@dataclass(frozen=True)
class Contest:
    """Some methods of a section, held against each other by one quantity."""

    section: Section
    quantity: Quantity
    labels: tuple[str, ...]

    @classmethod
    def of(cls, section: Section, quantity: Quantity) -> "Contest":
        """Hold all methods of a section against each other."""
        return cls(section, quantity, tuple(section.series))

    @cached_property
    def bests(self) -> dict[int, Best]:
        """By length, of those at which some method has a figure."""
        return {N: found for N in self.section.lengths if (found := self.best(N)) is not None}

    def wins(self, label: str, N: int) -> bool:
        """Say whether a method is the best at a length or cannot be told from it."""
        return N in self.bests and label in self.bests[N].labels

    def best(self, N: int) -> Best | None:
        """Return the best at one length; None where no method has a figure.

        To be told apart, a method must be behind the first at N by the crossover of the two, which is adjusted over the
        lengths; and by the same paired t test, adjusted over the methods. The first is chosen by what the tests are made on:
        this is why they are adjusted by Holm and not for the share of false ones. Two methods that are alike are so told apart
        in 5 of 100 cases; that some of four are in 8, and of eight in 10 to 12. An error, or bytes, of 0 needs no test.

        Where some replicate has 0 or less, which has no ratio, all are compared by their means and by paired t tests on
        differences.
        """
        values = {label: found for label in self.labels if (found := self.quantity.values(self.section.at(label, N)))}
        if not values:
            return None
        ranked = {label: found for label in values if (found := self.quantity.ranked(self.section.at(label, N)))}
        rising = sorted(ranked, key=lambda label: statistics.fmean(map(math.log, ranked[label].values())))
        none = [label for label, found in values.items() if not any(found.values())]
        if none and not self.quantity.more_is_better and len(none) + len(ranked) == len(values):
            return Best(N, tuple(none), tuple(rising))
        by_ratio = len(ranked) == len(values)
        if not by_ratio:
            sign = -1 if self.quantity.more_is_better else 1
            ranked = {label: {number: sign * value for number, value in found.items()} for label, found in values.items()}
            rising = sorted(ranked, key=lambda label: statistics.fmean(ranked[label].values()))
        first, *others = rising
        chances = {label: _chance(ranked[first], ranked[label], self.quantity.enough, by_ratio=by_ratio) for label in others}
        likely = sorted(chances, key=lambda label: chances[label])
        # Holm 1979: that any of these does not differ has a chance of at most the level
        kept = next((i for i, label in enumerate(likely) if chances[label] * (len(likely) - i) > LEVEL), len(likely))
        behind = {label for label in likely[:kept] if not by_ratio or self._leads(first, label).get(N) is Lead.OF}
        alike = (label for label in others if label not in behind)
        return Best(N, (first, *alike), tuple(label for label in others if label in behind))

    @cached_property
    def _leads(self) -> Callable[[str, str], Mapping[int, Lead]]:
        """Who leads in a pair, by length; each pair is compared once: the first at one length is often the first at another."""
        return cache(lambda of, over: Versus(self.section, of, over, self.quantity).crossover.leads)


def _chance(first: Mapping[int, float], other: Mapping[int, float], enough: int, *, by_ratio: bool) -> float:
    """Return the chance of no difference (p). Of few pairs no test says much: then 0 where the ranges lie apart, else 1."""
    pairs = sorted(first.keys() & other.keys())
    if len(pairs) < enough:
        return 0.0 if max(first.values()) < min(other.values()) else 1.0
    if by_ratio:
        return ratio(first, other, paired=True).p
    differences = [other[number] - first[number] for number in pairs]
    mean, error = statistics.fmean(differences), math.sqrt(variance(differences) / len(differences))
    # a replicate without a partner counts in the mean of its cell, and in no difference
    if mean <= 0:
        return 1.0
    return t_two_sided(mean / error, len(differences) - 1) if error else 0.0


@dataclass(frozen=True)
class Candidate:
    """A method with its cost and its loss; of both less is better, and neither is NaN."""

    label: str
    cost: Estimate
    loss: Estimate


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that no other beats (better in one figure, at least as good in the other), by rising cost."""
    found: list[Candidate] = []
    for candidate in sorted(candidates, key=_place):
        if not found or candidate.loss.value < found[-1].loss.value or _place(candidate) == _place(found[-1]):
            found.append(candidate)
    return found


def surely_beaten(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Say whether another is better in one figure and at least as good in the other by the intervals, not by chance."""
    best = candidate.cost.ends[0], candidate.loss.ends[0]
    worsts = ((other.cost.ends[1], other.loss.ends[1]) for other in others if other is not candidate)
    return any(worst[0] <= best[0] and worst[1] <= best[1] and worst != best for worst in worsts)


def _place(candidate: Candidate) -> tuple[float, float]:
    return candidate.cost.value, candidate.loss.value
