"""The best of one length, with all that cannot be told from it: by tests, where `fastest` goes by the overlap of ranges."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.crossover import Lead
from attnbench.analyze.metric import Metric
from attnbench.analyze.ratio import ratio
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.verdict import LEVEL
from attnbench.analyze.versus import Versus

_Values = Mapping[int, float]
"""By replicate number; less is better."""


@dataclass(frozen=True)
class Best:
    """Of the methods that have figures at one length, by rising geometric mean of their replicates."""

    N: int
    labels: tuple[str, ...]
    """The first, and all that cannot be told from it."""
    behind: tuple[str, ...]
    """All that can."""
    replicates: int
    """Pairs of the comparison with the first that has the fewest."""

    @property
    def alone(self) -> bool:
        """Whether the first is told apart from all others."""
        return len(self.labels) == 1

    @property
    def count(self) -> int:
        """Methods that have figures."""
        return len(self.labels) + len(self.behind)


def best(section: Section, labels: Sequence[str], N: int, metric: Metric) -> Best:
    """Of these methods, at least one of which has figures at N.

    To be told apart, a method must be behind the first at N by the crossover of the two, which is adjusted over the lengths;
    and by the same paired t test, adjusted over the methods. The first is chosen by what the tests are made on: this is
    why they are adjusted by Holm and not for the share of false ones, and why two methods that are alike are told apart in
    less than 5 of 100 cases, however many others there are.
    """
    values = {label: found for label in labels if (found := metric.of(section.at(label, N)))}
    first, *others = sorted(values, key=lambda label: statistics.fmean(map(math.log, values[label].values())))
    chances = {label: _chance(values[first], values[label]) for label in others}
    behind = {label for label in _holm(chances) if Versus(section, first, label, metric).crossover.leads.get(N) is Lead.OF}
    pairs = [len(values[first].keys() & values[label].keys()) for label in others]
    return Best(
        N,
        (first, *(label for label in others if label not in behind)),
        tuple(label for label in others if label in behind),
        min(pairs, default=len(values[first])),
    )


def _chance(first: _Values, other: _Values) -> float:
    """Chance of no difference (p). Below five pairs no test says much: then 0 where the ranges lie apart, and else 1."""
    if len(first.keys() & other.keys()) >= ENOUGH:
        return ratio(first, other, paired=True).p
    return 0.0 if max(first.values()) < min(other.values()) else 1.0


def _holm(chances: Mapping[str, float]) -> list[str]:
    """Those that differ; that any of them does not has a chance of at most the level (Holm 1979)."""
    rising = sorted(chances, key=lambda label: chances[label])
    kept = next((i for i, label in enumerate(rising) if chances[label] * (len(rising) - i) > LEVEL), len(rising))
    return rising[:kept]
