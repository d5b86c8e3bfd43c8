"""Where a series may have steps: seeded binary segmentation.

Kovács, Li, Bühlmann, Munk 2022 (Seeded binary segmentation: a general methodology for fast and optimal changepoint
detection), definition 1 with decay 1/√2, and greedy selection. O(n log n). What is found may be too much, and is to be
thinned out.
"""

import math
from dataclasses import dataclass

import numpy as np

from attnbench.schema.history import Floats, Integers


@dataclass(frozen=True)
class _Intervals:
    """First index, index after the last, and the most likely step within: its place, and how much it stands out."""

    starts: Integers
    ends: Integers
    places: Integers
    contrasts: Floats


def candidates(y: Floats, noise: float, stay: int) -> Integers:
    """First indices of what may be a new level, rising; each side of a step has at least `stay` numbers.

    An interval counts where the two means differ by more than √(2 log n) standard errors: what the largest of n numbers
    of pure noise comes to. The step that stands out most is taken, then the most of the intervals that do not hold it, …
    """
    n = len(y)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    layers = [_of_length(sums, length, stay) for length in _lengths(n, 2 * stay)]
    if not layers:
        return np.zeros(0, dtype=np.int64)
    every = _Intervals(*(np.concatenate([getattr(layer, name) for layer in layers]) for name in _Intervals.__annotations__))
    threshold = noise * math.sqrt(2 * math.log(n))
    left, found = np.where(every.contrasts > threshold, every.contrasts, 0.0), []
    while left.any():
        place = every.places[left.argmax()]
        found.append(place)
        left[(every.starts < place) & (place < every.ends)] = 0.0
    return np.sort(np.array(found, dtype=np.int64))


def _lengths(n: int, least: int) -> list[int]:
    """The whole series, and then ever shorter intervals."""
    lengths = []
    while n >= least:
        lengths.append(n)
        n = min(n - 1, int(n / math.sqrt(2)))
    return lengths


def _of_length(sums: Floats, length: int, stay: int) -> _Intervals:
    """Evenly spaced intervals of one length."""
    n = len(sums) - 1
    count = 2 * math.ceil(n / length) - 1
    starts = np.linspace(0, n - length, count).astype(np.int64)
    left = np.arange(stay, length - stay + 1)
    # sum of the left part less its share of the whole
    whole = sums[starts + length] - sums[starts]
    excess = sums[starts[:, None] + left] - sums[starts][:, None] - whole[:, None] * (left / length)
    contrast = np.abs(excess) * np.sqrt(length / (left * (length - left)))
    best = contrast.argmax(axis=1)
    return _Intervals(starts, starts + length, starts + left[best], contrast[np.arange(count), best])
