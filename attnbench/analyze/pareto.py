"""Which of several methods are worth a thought, by a cost and a loss of which less is better: the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnbench.analyze.statistics import Estimate


@dataclass(frozen=True)
class Candidate:
    """Of both figures less is better; neither is NaN."""

    label: str
    cost: Estimate
    loss: Estimate


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats: by being better in one figure and at least as good in the other. By rising cost."""
    found: list[Candidate] = []
    for candidate in sorted(candidates, key=_place):
        if not found or candidate.loss.value < found[-1].loss.value or _place(candidate) == _place(found[-1]):
            found.append(candidate)
    return found


def surely_beaten(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether one of them is better in one figure and at least as good in the other by the intervals, not by chance."""
    return any(_surely_beats(other, candidate) for other in others if other is not candidate)


def _surely_beats(one: Candidate, other: Candidate) -> bool:
    pairs = ((one.cost.ends, other.cost.ends), (one.loss.ends, other.loss.ends))
    return all(a[1] <= b[0] for a, b in pairs) and any(a[1] < b[0] for a, b in pairs)


def _place(candidate: Candidate) -> tuple[float, float]:
    return candidate.cost.value, candidate.loss.value
