"""The largest number that fits: fourfold until one does not, then halving the gap. Pure: from what is known to what to try."""

from collections.abc import Mapping

_COARSE = 16


def next_trial(fits: Mapping[int, bool], most: int) -> int | None:
    """What to try next, of 1 … most, or None once the largest is known to one part in sixteen.

    `fits` holds what was tried so far. A larger number is taken to fit no better than a smaller one; where one was seen
    to, the larger counts.
    """
    good, bad = largest(fits), min((n for n, fit in fits.items() if not fit), default=most + 1)
    if bad - good <= max(1, good // _COARSE):
        return None
    return min(max(1, 4 * good), most) if bad > most else (good + bad) // 2


def largest(fits: Mapping[int, bool]) -> int:
    """The largest that was seen to fit; 0 where none was."""
    return max((n for n, fit in fits.items() if fit), default=0)
