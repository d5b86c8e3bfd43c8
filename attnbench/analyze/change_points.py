"""Change points: where the level of a series has shifted for good, by more than a margin and more than noise explains.

y: one number a run, in order; logarithms, so that a difference is a factor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from attnbench.analyze.seeded import candidates
from attnbench.analyze.statistics import t_quantile, t_reached, t_two_sided
from attnbench.analyze.verdict import adjusted
from attnbench.schema.history import Floats, Integers

STAY = 2
"""Numbers that a level has at least, on either side of a step: a single bad run is no change."""
WITHIN = 3
"""Numbers of a level that went by: two bad runs are no change either, once the next one is good."""
FEWEST = 2 * STAY
LEVEL = 0.001
"""Accepted share of false alarms among all alarms: a history is looked at every day."""
_SURE = 0.9
"""How often a change is seen that counts as one that can be seen."""
_REACH, _ABSURD = 3.0, 5.0
"""Standard deviations from its neighbours from which on a number is pulled in, and taken for theirs."""
_WINDOW = 5
_TO_DEVIATION = 1.4826
"""From a median absolute deviation to the standard deviation of a normal law."""


@dataclass(frozen=True)
class Step:
    """A new level from `at` on."""

    at: int
    before: float
    after: float
    """Mean of the level, bad runs that went by pulled in."""
    half: float
    """Half of the 95 % interval of the difference, by t."""
    p: float
    """Of no step, two-sided, times the number of places that one could have been at."""


def steps(series: Sequence[Floats], margin: float, level: float = LEVEL) -> list[tuple[Step, ...]]:
    """Of many series, the steps of each; false discoveries are controlled over all of them together.

    A step is at least log(1 + margin) high. Series of fewer than four numbers have none.
    """
    found = [segment(y, margin, level) for y in series]
    ps = [step.p for each in found for step in each] + [1.0 for each in found if not each]
    accepted = max((p for p, q in zip(ps, adjusted(ps), strict=True) if q <= level), default=0.0)
    # where a weak step falls, its neighbours' levels are others
    return [
        each if all(step.p <= accepted for step in each) else segment(y, margin, accepted)
        for y, each in zip(series, found, strict=True)
    ]


def segment(y: Floats, margin: float, level: float = LEVEL) -> tuple[Step, ...]:
    """The steps of one series: candidates, of which those that chance or the margin explains fall, the weakest first."""
    if len(y) < FEWEST:
        return ()
    least = math.log1p(margin)
    # noise far below the margin changes no verdict
    noise = max(deviation(y), least / 10)
    tamed = tame(y - np.median(y), noise)
    levels = _Levels(tamed, candidates(tamed, noise, STAY), least / 10)
    levels = levels.without(np.zeros(len(levels.places), dtype=np.bool_))
    while len(levels.places):
        doubtful = levels.doubtful(level)
        small = np.abs(levels.heights) < least
        if doubtful.any():
            levels = levels.without(doubtful & _lowest(levels.strengths))
        elif small.any():
            levels = levels.without(small & _lowest(np.abs(levels.heights)))
        else:
            break
    return levels.steps(float(np.median(y)))


def smallest(y: Floats, found: Sequence[Step], margin: float, level: float) -> float:
    """The smallest change, as a share, that the newest level would have shown nine times in ten, had it been in its middle.

    `found` are the steps of the series, `level` what p has to keep to for a step to be told. The margin where noise could
    not have hidden a change of that size; infinite where the newest level is too short for any.
    """
    if len(y) < FEWEST:
        return math.inf
    least = math.log1p(margin)
    tamed = tame(y - np.median(y), max(deviation(y), least / 10))
    height = _Levels(tamed, np.array([step.at for step in found], dtype=np.int64), least / 10).least_height(level)
    return margin if height <= least else math.expm1(height)


def deviation(y: Floats) -> float:
    """Standard deviation of the noise, from differences of neighbours: neither steps nor single bad numbers count much."""
    if len(y) < 2:
        return 0.0
    return float(_TO_DEVIATION * np.median(np.abs(np.diff(y))) / math.sqrt(2))


def tame(y: Floats, noise: float) -> Floats:
    """Pull in what went by: numbers far from the median of themselves and two on either side.

    At either end, from that of the three there: a level of two runs stays where it is the newest, and is pulled in once
    it has gone by. What was pulled in holds no other number any more, so bad runs with good ones between stand alone.
    """
    tamed = y.copy()
    if len(y) >= _WINDOW:
        middle = np.median(sliding_window_view(y, _WINDOW), axis=1)
        for i in np.flatnonzero(np.abs(y[2:-2] - middle) > _REACH * noise).tolist():
            tamed[i + 2] = _pulled(tamed[i + 2], tamed[i : i + _WINDOW], noise)
    last = len(y) - 1
    for i, beside in ((1, slice(0, 3)), (0, slice(0, 3)), (last - 1, slice(last - 2, None)), (last, slice(last - 2, None))):
        tamed[i] = _pulled(tamed[i], tamed[beside], noise)
    return tamed


def _pulled(value: float, window: Floats, noise: float) -> float:
    """To three deviations from the middle; one further than five says nothing, and is taken for the middle."""
    middle = float(np.sort(window)[len(window) // 2])
    if abs(value - middle) > _ABSURD * noise:
        return middle
    return min(max(value, middle - _REACH * noise), middle + _REACH * noise)


def _lowest(values: Floats) -> NDArray[np.bool_]:
    """Which are below both neighbours: they may fall together, for no two of them share a level."""
    ends = np.concatenate([[np.inf], values, [np.inf]])
    lowest: NDArray[np.bool_] = (values < ends[:-2]) & (values <= ends[2:])
    return lowest


class _Levels:
    """A series cut at some places, and how sure each cut is."""

    def __init__(self, y: Floats, places: Integers, floor: float) -> None:
        self._y, self._floor, self.places = y, floor, places
        self._sums, self._squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (y, y * y))
        self._edges = np.concatenate([[0], places, [len(y)]]).astype(np.int64)
        self._sizes = np.diff(self._edges)
        self._means = np.diff(self._sums[self._edges]) / self._sizes
        self.heights: Floats = np.diff(self._means)
        self._errors = self._standard_errors()
        # a level that is too short has not stayed
        least = np.full(len(self._sizes), WITHIN)
        least[[0, -1]] = STAY
        stays = self._sizes >= least
        self.strengths: Floats = np.where(stays[:-1] & stays[1:], np.abs(self.heights) / self._errors, 0.0)
        """t of each cut."""

    @property
    def _freedom(self) -> int:
        return max(1, len(self._y) - len(self._sizes))

    def _standard_errors(self) -> Floats:
        """Of the heights: by the spread within all levels, or within the two beside a cut where that is greater."""
        around = np.maximum(0.0, np.diff(self._squares[self._edges]) - self._sizes * self._means**2)
        beside = (around[:-1] + around[1:]) / np.maximum(1, self._sizes[:-1] + self._sizes[1:] - 2)
        variance = np.maximum(np.maximum(around.sum() / self._freedom, beside), self._floor**2)
        errors: Floats = np.sqrt(variance * (1 / self._sizes[:-1] + 1 / self._sizes[1:]))
        return errors

    def _p(self, strength: float) -> float:
        # a level may begin anywhere, and may be one that went by: twice the places
        return min(1.0, 2 * len(self._y) * t_two_sided(strength, self._freedom))

    def doubtful(self, level: float) -> NDArray[np.bool_]:
        """Which cuts chance explains."""
        return np.array([self._p(strength) > level for strength in self.strengths], dtype=np.bool_)

    def least_height(self, level: float) -> float:
        """Of a step in the middle of the newest level, so that it is told nine times in ten."""
        size = int(self._sizes[-1])
        if size < FEWEST:
            return math.inf
        # there would be one level more
        freedom = max(1, self._freedom - 1)
        around = np.maximum(0.0, np.diff(self._squares[self._edges]) - self._sizes * self._means**2)
        variance = max(float(around.sum()) / freedom, self._floor**2)
        error = math.sqrt(variance * (1 / (size // 2) + 1 / (size - size // 2)))
        return error * (t_reached(level / (2 * len(self._y)), freedom) + t_reached(2 * (1 - _SURE), freedom))

    def without(self, fallen: NDArray[np.bool_]) -> "_Levels":
        """Some cuts less, and each of the others where it now fits best."""
        edges = [0, *self.places[~fallen].tolist(), len(self._y)]
        for i in range(1, len(edges) - 1):
            edges[i] = self._best(edges[i - 1], edges[i], edges[i + 1])
        return _Levels(self._y, np.array(edges[1:-1], dtype=np.int64), self._floor)

    def _best(self, first: int, place: int, last: int) -> int:
        """Where between its neighbours a cut parts the numbers best, by least squares."""
        size = last - first
        before, after = (STAY if end in {0, len(self._y)} else WITHIN for end in (first, last))
        if size < before + after:
            return place
        left = np.arange(before, size - after + 1)
        whole = self._sums[last] - self._sums[first]
        excess = self._sums[first + left] - self._sums[first] - whole * (left / size)
        return first + int(left[(excess**2 / (left * (size - left))).argmax()])

    def steps(self, origin: float) -> tuple[Step, ...]:
        """As they stand; `origin` is added to the levels."""
        half = t_quantile(self._freedom)
        levels = self._means + origin
        each = zip(self.places, levels[:-1], levels[1:], self._errors, self.strengths, strict=True)
        return tuple(Step(int(at), float(a), float(b), half * float(e), self._p(float(t))) for at, a, b, e, t in each)
