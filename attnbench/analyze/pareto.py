"""Which of several methods are worth a thought, by a cost and a loss of which less is better: the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnbench.analyze.statistics import Interval


@dataclass(frozen=True)
class Candidate:
    """Of both figures less is better; neither is NaN. An interval is None where the figure is exact."""

    label: str
    cost: float
    cost_interval: Interval | None
    loss: float
    loss_interval: Interval | None


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats: by being better in one figure and at least as good in the other. By rising cost."""
    found: list[Candidate] = []
    for candidate in sorted(candidates, key=_place):
        if not found or candidate.loss < found[-1].loss or _place(candidate) == _place(found[-1]):
            found.append(candidate)
    return found


def surely_beaten(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether one of them is better in one figure and at least as good in the other by the intervals, not by chance."""
    return any(_surely_beats(other, candidate) for other in others if other is not candidate)


def _surely_beats(one: Candidate, other: Candidate) -> bool:
    pairs = ((_cost(one), _cost(other)), (_loss(one), _loss(other)))
    return all(a[1] <= b[0] for a, b in pairs) and any(a[1] < b[0] for a, b in pairs)


def _place(candidate: Candidate) -> tuple[float, float]:
    return candidate.cost, candidate.loss


def _cost(candidate: Candidate) -> tuple[float, float]:
    interval = candidate.cost_interval
    return (interval.low, interval.high) if interval else (candidate.cost, candidate.cost)


def _loss(candidate: Candidate) -> tuple[float, float]:
    interval = candidate.loss_interval
    return (interval.low, interval.high) if interval else (candidate.loss, candidate.loss)
