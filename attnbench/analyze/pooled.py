"""What rules that throw the samples of all processes together say of two sides that are alike; no verdict rests on them."""

import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from attnbench.analyze.power import SOUGHT, Hits
from attnbench.analyze.verdict import LEVEL

Samples = Sequence[float]
Says = Callable[[Samples, Samples], int]
"""1 where B is called slower than A, -1 where faster, 0 where neither."""


@dataclass(frozen=True)
class Rule:
    """One rule, and what it said of the same processes that the verdicts rest on."""

    name: str
    alarms: Hits
    """Either way, side B left as it is."""
    sought: tuple[Hits, ...]
    """By the effects of SOUGHT: B called slower, where its samples are multiplied."""


def rules(sides: Sequence[tuple[Samples, Samples]], margin: float) -> tuple[Rule, ...]:
    """The usual three: a rank test, a t test, and a look at the means."""
    known: Mapping[str, Says] = {
        "Mann-Whitney on all samples": _by_ranks,
        "Welch's t on all samples": _by_means,
        f"means differ by over {100 * margin:g}%": lambda a, b: _beyond(a, b, margin),
    }
    return tuple(_tried(name, says, sides) for name, says in known.items())


def _tried(name: str, says: Says, sides: Sequence[tuple[Samples, Samples]]) -> Rule:
    sought = ([says(a, [value * (1 + effect) for value in b]) for a, b in sides] for effect, _ in SOUGHT)
    return Rule(
        name,
        Hits(sum(says(a, b) != 0 for a, b in sides), len(sides)),
        tuple(Hits(said.count(1), len(said)) for said in sought),
    )


def _by_ranks(a: Samples, b: Samples) -> int:
    return _signed(float(stats.mannwhitneyu(a, b, method="asymptotic").pvalue), statistics.median(b) - statistics.median(a))


def _by_means(a: Samples, b: Samples) -> int:
    with warnings.catch_warnings():
        # samples that are all alike have no spread to test by, and then p is no number
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    return _signed(p, statistics.fmean(b) - statistics.fmean(a))


def _beyond(a: Samples, b: Samples, margin: float) -> int:
    change = statistics.fmean(b) / statistics.fmean(a)
    return (change > 1 + margin) - (change < 1 / (1 + margin))


def _signed(p: float, difference: float) -> int:
    return 0 if not p <= LEVEL else (difference > 0) - (difference < 0)
