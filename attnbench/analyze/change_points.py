"""Change points: where the level of a series has shifted for good, by more than a margin and more than noise explains.

y: one number a run, in order; logarithms, so that a difference is a factor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

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
"""Standard deviations from its neighbours beyond which a number is pulled in, and beyond which it is replaced by theirs."""
_WINDOW = 5
_TO_DEVIATION = 1.4826
"""From a median absolute deviation to the standard deviation of a normal law."""


@dataclass(frozen=True)
class Step:
    """A new level from `at` on."""

    at: int
    before: float
    after: float
    """Mean of the level, with bad runs that went by pulled in."""
    half: float
    """Half of the 95 % interval of the difference, by t."""
    p: float
    """The two-sided p of no step, times the number of places that one could have been at."""


def steps(series: Sequence[Floats], margin: float) -> list[tuple[Step, ...]]:
    """Return the steps of each of many series; false discoveries are controlled over all of them together.

    A step is at least log(1 + margin) high. Series of fewer than four numbers have none.
    """
    found = [segment(y, margin) for y in series]
    ps = [step.p for each in found for step in each] + [1.0 for each in found if not each]
    accepted = max((p for p, q in zip(ps, adjusted(ps), strict=True) if q <= LEVEL), default=0.0)
    # where a weak step falls, its neighbours' levels are others
    return [
        each if all(step.p <= accepted for step in each) else segment(y, margin, accepted)
        for y, each in zip(series, found, strict=True)
    ]


def segment(y: Floats, margin: float, level: float = LEVEL) -> tuple[Step, ...]:
    """Return the steps of one series: of the candidates, those that chance or the margin explains fall, the weakest first."""
    if len(y) < FEWEST:
        return ()
    least, tamed, noise = _prepared(y, margin)
    levels = _Levels(tamed, candidates(tamed, noise), least / 10)
    levels = levels.without(np.zeros(len(levels.places), dtype=np.bool_))
    while len(levels.places):
        doubtful, small = levels.ps > level, np.abs(levels.heights) < least
        if doubtful.any():
            levels = levels.without(doubtful & _lowest(levels.strengths))
        elif small.any():
            levels = levels.without(small & _lowest(np.abs(levels.heights)))
        else:
            break
    return levels.steps(float(np.median(y)))


def smallest(y: Floats, found: Sequence[Step], margin: float, level: float) -> float:
    """Return the smallest change, as a share, that a step in the middle of the newest level would have shown nine times in ten.

    `found` are the steps of the series, `level` what p has to keep to for a step to be told. The answer is the margin where
    noise could not have hidden a change of that size, though of changes of just the margin half are measured below it and not
    told; and infinite where the newest level is too short for any.
    """
    if len(y) < FEWEST:
        return math.inf
    least, tamed, _ = _prepared(y, margin)
    height = _Levels(tamed, np.array([step.at for step in found], dtype=np.int64), least / 10).least_height(level)
    return margin if height <= least else math.expm1(height)


def _prepared(y: Floats, margin: float) -> tuple[float, Floats, float]:
    """Return the least height of a step, the tamed series around 0, and its noise."""
    least = math.log1p(margin)
    # noise far below the margin changes no verdict
    noise = max(deviation(y), least / 10)
    return least, tame(y - np.median(y), noise), noise


def deviation(y: Floats) -> float:
    """Return the standard deviation of the noise, from differences of neighbours: steps and single bad numbers count little."""
    if len(y) < 2:
        return 0.0
    return float(_TO_DEVIATION * np.median(np.abs(np.diff(y))) / math.sqrt(2))


def tame(y: Floats, noise: float) -> Floats:
    """Pull in what went by: numbers far from the median of themselves and two on either side.

    At either end the median is that of the three there: a level of two runs stays while it is the newest, and is pulled in
    once it has gone by. What was pulled in holds no other number any more, so bad runs with good ones between stand alone.
    """
    tamed = y.copy()

    def pull(i: int, window: Floats) -> None:
        middle = float(np.sort(window)[len(window) // 2])
        if abs(tamed[i] - middle) > _ABSURD * noise:
            tamed[i] = middle
        tamed[i] = min(max(tamed[i], middle - _REACH * noise), middle + _REACH * noise)

    if len(y) >= _WINDOW:
        middle = np.median(sliding_window_view(y, _WINDOW), axis=1)
        for i in np.flatnonzero(np.abs(y[2:-2] - middle) > _REACH * noise).tolist():
            pull(i + 2, tamed[i : i + _WINDOW])
    for i, end in ((1, tamed[:3]), (0, tamed[:3]), (-2, tamed[-3:]), (-1, tamed[-3:])):
        pull(i, end)
    return tamed


def candidates(y: Floats, noise: float) -> Integers:
    """Return the first indices of what may be new levels, rising; each side of one has at least `STAY` numbers.

    Seeded binary segmentation with decay 1/√2 and greedy selection (Kovács, Li, Bühlmann, Munk 2022, definition 1), in
    O(n log n). An interval counts where its two means differ by more than √(2 log n) standard errors, as the largest of n
    numbers of pure noise does. The step that stands out most is taken, then the next among the intervals that do not hold it,
    and so on: what is found may be too much, and is to be thinned out.
    """
    n, sums = len(y), np.concatenate([[0.0], np.cumsum(y)])
    layers, length = [], n
    while length >= FEWEST:
        starts = np.linspace(0, n - length, 2 * math.ceil(n / length) - 1).astype(np.int64)
        left = np.arange(STAY, length - STAY + 1)
        # the sum of the left part less its share of the whole
        whole = sums[starts + length] - sums[starts]
        excess = sums[starts[:, None] + left] - sums[starts][:, None] - whole[:, None] * (left / length)
        contrast = np.abs(excess) * np.sqrt(length / (left * (length - left)))
        layers.append((starts, starts + length, starts + left[contrast.argmax(axis=1)], contrast.max(axis=1)))
        length = min(length - 1, int(length / math.sqrt(2)))
    starts, ends, places, contrasts = (np.concatenate(each) for each in zip(*layers, strict=True))
    contrasts[contrasts <= noise * math.sqrt(2 * math.log(n))] = 0.0
    found = []
    while contrasts.any():
        found.append(places[contrasts.argmax()])
        contrasts[(starts < found[-1]) & (found[-1] < ends)] = 0.0
    return np.sort(np.array(found, dtype=np.int64))


def _lowest(values: Floats) -> NDArray[np.bool_]:
    """Return which are below both neighbours: they may fall together, for no two of them share a level."""
    ends = np.concatenate([[np.inf], values, [np.inf]])
    lowest: NDArray[np.bool_] = (values < ends[:-2]) & (values <= ends[2:])
    return lowest


class _Levels:
    """A series cut at some places, and how sure each cut is."""

    def __init__(self, y: Floats, places: Integers, floor: float) -> None:
        self._y, self._floor, self.places = y, floor, places
        edges = np.concatenate([[0], places, [len(y)]]).astype(np.int64)
        self._sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (y, y * y))
        self._sizes = sizes = np.diff(edges)
        self._freedom = max(1, len(y) - len(sizes))
        self._means = np.diff(self._sums[edges]) / sizes
        self.heights: Floats = np.diff(self._means)
        # a cut's error is by the spread within all levels, or within the two beside it where that is greater
        around = np.maximum(0.0, np.diff(squares[edges]) - sizes * self._means**2)
        self._around = float(around.sum())
        beside = (around[:-1] + around[1:]) / np.maximum(1, sizes[:-1] + sizes[1:] - 2)
        variance = np.maximum(np.maximum(self._around / self._freedom, beside), floor**2)
        self._errors: Floats = np.sqrt(variance * (1 / sizes[:-1] + 1 / sizes[1:]))
        # a level that is too short has not stayed
        least = np.full(len(sizes), WITHIN)
        least[[0, -1]] = STAY
        stays = sizes >= least
        self.strengths: Floats = np.where(stays[:-1] & stays[1:], np.abs(self.heights) / self._errors, 0.0)
        """The t of each cut."""
        # a level may begin anywhere, and may be one that went by: twice the places
        ps = [min(1.0, 2 * len(y) * t_two_sided(t, self._freedom)) for t in self.strengths]
        self.ps: Floats = np.array(ps, dtype=np.float64)

    def least_height(self, level: float) -> float:
        """Return the height of a step in the middle of the newest level at which it is told nine times in ten."""
        size = int(self._sizes[-1])
        if size < FEWEST:
            return math.inf
        # there would be one level more
        freedom = max(1, self._freedom - 1)
        variance = max(self._around / freedom, self._floor**2)
        error = math.sqrt(variance * (1 / (size // 2) + 1 / (size - size // 2)))
        return error * (t_reached(level / (2 * len(self._y)), freedom) + t_reached(2 * (1 - _SURE), freedom))

    def without(self, fallen: NDArray[np.bool_]) -> "_Levels":
        """Drop some cuts, and move each of the others to where it parts the numbers between its neighbours best."""
        n, sums = len(self._y), self._sums
        edges = [0, *self.places[~fallen].tolist(), n]
        for i in range(1, len(edges) - 1):
            first, last = edges[i - 1], edges[i + 1]
            size = last - first
            before, after = (STAY if end in {0, n} else WITHIN for end in (first, last))
            if size >= before + after:
                left = np.arange(before, size - after + 1)
                excess = sums[first + left] - sums[first] - (sums[last] - sums[first]) * (left / size)
                # by least squares
                edges[i] = first + before + int((excess**2 / (left * (size - left))).argmax())
        return _Levels(self._y, np.array(edges[1:-1], dtype=np.int64), self._floor)

    def steps(self, origin: float) -> tuple[Step, ...]:
        """Return the cuts as they stand, with `origin` added to the levels."""
        half = t_quantile(self._freedom)
        levels = self._means + origin
        each = zip(self.places, levels[:-1], levels[1:], self._errors, self.ps, strict=True)
        return tuple(Step(int(at), float(a), float(b), half * float(error), float(p)) for at, a, b, error, p in each)
