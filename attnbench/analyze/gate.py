"""What a gate says: one exit code for all verdicts together, and when to look."""

from collections.abc import Sequence
from enum import IntEnum

from attnbench.analyze.compare import Comparison, is_lost, is_regression
from attnbench.analyze.verdict import LEVEL, Verdict

FIRST = 5
"""Replicates before the first look; below, an interval says too little."""


class Exit(IntEnum):
    """Of `attnbench gate`. A proven regression is said before lost cells, and these before what is unclear.

    USAGE is said of whatever left no verdict, or one that could not be written: bad input, the machine, the disk.
    """

    FINE = 0
    REGRESSION = 1
    USAGE = 2
    UNCLEAR = 3
    LOST = 4


def exit_of(comparisons: Sequence[Comparison]) -> Exit:
    """Of all cells together; UNCLEAR also where there was nothing to judge."""
    if any(map(is_regression, comparisons)):
        return Exit.REGRESSION
    if any(map(is_lost, comparisons)):
        return Exit.LOST
    judged = [c for c in comparisons if c.ratio is not None]
    return Exit.UNCLEAR if not judged or any(c.verdict is Verdict.UNCLEAR for c in judged) else Exit.FINE


def looks(most: int, first: int = FIRST) -> list[int]:
    """Replicates after which verdicts are made: 5, 10, 20, … up to `most`, doubling, for each look costs certainty."""
    found = [min(first, most)]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    # a last step of less than half would not be worth its share of the level
    if len(found) > 1 and 2 * (found[-1] - found[-2]) < found[-2]:
        del found[-2]
    return found


def level_of(count: int) -> float:
    """The level of each of so many looks, such that all of them together keep to the one of a single look (Bonferroni)."""
    return LEVEL / count


def unclear(comparisons: Sequence[Comparison]) -> set[str]:
    """Keys of the cells that more replicates may decide."""
    return {c.pair.any.cell.key for c in comparisons if c.ratio is not None and c.verdict is Verdict.UNCLEAR}
