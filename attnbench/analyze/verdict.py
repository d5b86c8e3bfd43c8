"""Verdicts: what may be said of many ratios at once."""

import math
from collections.abc import Sequence
from enum import StrEnum

from attnbench.analyze.ratio import Ratio

LEVEL = 0.05
"""Share of false alarms among all alarms that is accepted."""
MARGIN = 0.05
"""Relative effect that is worth a word, where nothing else is said."""


class Verdict(StrEnum):
    """Of one cell, new against old."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNCLEAR = "UNCLEAR"
    LOST = "LOST"
    """It used to give numbers, and does no longer: a regression of its own kind."""
    GAINED = "GAINED"
    """It gives numbers, and did not before."""
    ABSENT = "ABSENT"
    """Numbers on neither side, or the cell is planned on one side only."""


def judge(ratios: Sequence[Ratio], margin: float = MARGIN, level: float = LEVEL) -> list[Verdict]:
    """One verdict a ratio; false discoveries are controlled over all that are given together.

    FASTER or SLOWER: adjusted p ≤ level, and the effect beyond the margin. SAME: the interval lies within the margin.
    UNCLEAR: all else. A margin of 5 % reaches from 1/1.05 to 1.05.
    """
    return [_verdict(r, p, margin, level) for r, p in zip(ratios, adjusted([r.p for r in ratios]), strict=True)]


def _verdict(ratio: Ratio, p: float, margin: float, level: float) -> Verdict:
    reach = math.log1p(margin)
    if p <= level and abs(math.log(ratio.value)) > reach:
        return Verdict.SLOWER if ratio.value > 1 else Verdict.FASTER
    within = ratio.interval is not None and -reach <= math.log(ratio.interval.low) and math.log(ratio.interval.high) <= reach
    return Verdict.SAME if within else Verdict.UNCLEAR


def adjusted(ps: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg 1995: p values such that those ≤ q hold a share of false discoveries of at most q."""
    order = sorted(range(len(ps)), key=lambda i: ps[i], reverse=True)
    found, least = [1.0] * len(ps), 1.0
    for rank, i in zip(range(len(ps), 0, -1), order, strict=True):
        # so that the largest stays what it is, to the last digit
        least = min(least, ps[i] * (len(ps) / rank))
        found[i] = least
    return found
