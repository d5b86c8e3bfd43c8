"""Comparisons: the cells of two sides, one with one, what may be said of each by one figure, and of all by an exit code.

What every replicate has is judged by statistics; what is read once a cell, as memory, by its size alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import STATE_BYTES, TIME, Quantity, Unit
from attnbench.analyze.verdict import LEVEL, MARGIN, Ratio, Verdict, judge, ratio

SMALLEST_BYTES = 2**20
"""Changes of a call's memory below this are never worth a word: page sizes and pools."""
EXACT = {STATE_BYTES, STATE.name}
"""Bytes that follow from the shape, of which each counts."""
FIRST = 5
"""Replicates before the first look; below, an interval says too little."""


@dataclass(frozen=True)
class Pair:
    """One cell on both sides; a side where it was never planned is None."""

    old: CellSummary | None
    new: CellSummary | None

    @property
    def any(self) -> CellSummary:
        """Return the new side, or the old where there is no new one."""
        found = self.new or self.old
        assert found is not None
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the label of the method; of two methods both, the new one first."""
        return tuple(dict.fromkeys(side.cell.label for side in (self.new, self.old) if side))


@dataclass(frozen=True)
class MemoryChange:
    """Bytes per sample by one counter on both sides."""

    old: float
    new: float
    verdict: Verdict
    """FASTER stands for less memory."""

    @property
    def value(self) -> float:
        """Return new over old; infinite where there was nothing before."""
        return self.new / self.old if self.old else math.inf


@dataclass(frozen=True)
class Comparison:
    """A comparison holds all that may be said of one pair."""

    pair: Pair
    verdict: Verdict
    """SLOWER stands for worse, and FASTER for better, whatever the figure is."""
    ratio: Ratio | None = None
    """Of the figure itself, new over old: above 1 there is more of it."""
    memory: MemoryChange | None = None
    reason: str = ""
    """Why there is no ratio."""


@dataclass(frozen=True)
class Terms:
    """Terms say by which figure pairs are judged, and how strictly."""

    quantity: Quantity
    """The figure, as the new side reads it."""
    before: Quantity
    """The same as the old side reads it: formulas of cost may have changed between the two."""
    counter: MainCounter | None = None
    """That of a memory which is judged beside the figure."""
    margin: float = MARGIN
    level: float = LEVEL
    paired: bool = False
    """Whether replicates of one number were measured side by side."""
    of_methods: bool = False
    """Whether the sides are methods of one run, the baseline being the old one: then no number was there before."""


def same_cells(old: Iterable[CellSummary], new: Iterable[CellSummary]) -> list[Pair]:
    """Pair the cells of two runs by key, in the order of the new run; what only the old one has comes last."""
    known = {summary.cell.key: summary for summary in old}
    pairs = [Pair(known.pop(summary.cell.key, None), summary) for summary in new]
    return pairs + [Pair(summary, None) for summary in known.values()]


def compare(pairs: Sequence[Pair], terms: Terms) -> list[Comparison]:
    """Return one comparison a pair, in order; false discoveries are controlled over all of them together."""
    found = [_compared(pair, terms) for pair in pairs]
    # what needs no statistics has its verdict already
    open_ = [i for i, each in enumerate(found) if each.ratio is not None and terms.quantity.is_replicated]
    verdicts = judge([known for i in open_ if (known := found[i].ratio)], terms.margin, terms.level)
    turned = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER} if terms.quantity.more_is_better else {}
    for i, verdict in zip(open_, verdicts, strict=True):
        found[i] = replace(found[i], verdict=turned.get(verdict, verdict))
    return [replace(each, memory=_memory(each.pair, terms)) if each.ratio else each for each in found]


def _compared(pair: Pair, terms: Terms) -> Comparison:
    """Return the ratio of a pair, or why there is none; the verdict is final only where it needs no statistics."""
    old, new = pair.old, pair.new
    if old is None or new is None:
        absent = f"no such cell on the {'old' if old is None else 'new'} side"
        return Comparison(pair, Verdict.ABSENT, reason="no baseline has a number here" if terms.of_methods else absent)
    quantity, ours, theirs = terms.quantity, terms.quantity.values(new), terms.before.values(old)
    # by time all failures are told; of another figure nothing is lost where none is recorded
    recorded = [values for side, values in ((old, theirs), (new, ours)) if side.ok]
    if not (old.ok and new.ok) and (quantity.name == TIME or not recorded or any(recorded)):
        return _without_number(pair, old, new, of_methods=terms.of_methods)
    if not ours or not theirs:
        return Comparison(pair, Verdict.ABSENT, reason=f"no {quantity.title} was recorded")
    if not any((*ours.values(), *theirs.values())):
        return Comparison(pair, Verdict.SAME, reason=f"{quantity.title} is 0 on both sides")
    none = min(*ours.values(), *theirs.values()) <= 0
    reason = f"{quantity.title} is 0 or less on a side, and has no ratio" if none else ""
    if not quantity.is_replicated:
        (now,), (before,) = ours.values(), theirs.values()
        exact = None if none else Ratio(now / before, None, 1.0, paired=terms.paired, replicates=1)
        least = _least_bytes(old, new) if quantity.unit is Unit.BYTES and quantity.name not in EXACT else 0.0
        return Comparison(pair, _by_size(before, now, least, terms.margin, quantity.more_is_better), exact, reason=reason)
    if none:
        # of methods it is no change, as where the baseline is exact
        return Comparison(pair, Verdict.ABSENT if terms.of_methods else Verdict.UNCLEAR, reason=reason)
    if terms.paired and not ours.keys() & theirs.keys():
        return Comparison(pair, Verdict.ABSENT, reason="no replicate has numbers of both sides")
    found = ratio(theirs, ours, paired=terms.paired)
    few = "one replicate a side: nothing is known of chance" if found.interval is None else ""
    return Comparison(pair, Verdict.UNCLEAR, found, reason=few)


def _without_number(pair: Pair, old: CellSummary, new: CellSummary, *, of_methods: bool) -> Comparison:
    """Judge a pair of which a side has no number: it fails, or nothing is known of it."""
    sides = ("the baseline", "the method") if of_methods else ("the old side", "the new side")
    if old.ok != new.ok and {old.status, new.status} & UNFINISHED:
        return Comparison(pair, Verdict.UNCLEAR, reason=f"{sides[old.ok]} was not run")
    if of_methods:
        verdict = Verdict.FAILS if old.ok else Verdict.RUNS if new.ok else Verdict.ABSENT
        named = zip(sides, (old, new), strict=True)
        why = "; ".join(f"{name} has no number ({_words(side)})" for name, side in named if not side.ok)
        return Comparison(pair, verdict, reason=why)
    verdict = Verdict.LOST if old.ok else Verdict.GAINED if new.ok else Verdict.ABSENT
    return Comparison(pair, verdict, reason=f"before, {_words(old)}" if new.ok else _words(new))


def _words(summary: CellSummary) -> str:
    return f"{summary.status}: {summary.reason}" if summary.reason else summary.status


def _memory(pair: Pair, terms: Terms) -> MemoryChange | None:
    """Compare memory by the one counter that both sides were read by."""
    if pair.old is None or pair.new is None or terms.counter is None:
        return None
    old, new = (terms.counter.per_sample(side) for side in (pair.old, pair.new))
    least = _least_bytes(pair.old, pair.new)
    if old is None or new is None or not (old or new):
        return None
    return MemoryChange(old, new, _by_size(old, new, least, terms.margin))


def _least_bytes(old: CellSummary, new: CellSummary) -> float:
    """Return the smallest change per sample that is worth a word, as it is of a call."""
    return SMALLEST_BYTES * min(old.per_sample, new.per_sample)


def _by_size(old: float, new: float, least: float, margin: float, more_is_better: bool = False) -> Verdict:
    """Judge what hardly varies: a change counts beyond the margin, and beyond the least that is worth a word."""
    if (least and abs(new - old) <= least) or max(old, new) <= min(old, new) * (1 + margin):
        return Verdict.SAME
    return Verdict.SLOWER if (new > old) != more_is_better else Verdict.FASTER


def is_regression(comparison: Comparison) -> bool:
    """Say whether a cell became worse, or takes more memory, beyond the margin."""
    return Verdict.SLOWER in {comparison.verdict, comparison.memory and comparison.memory.verdict}


def is_lost(comparison: Comparison) -> bool:
    """Say whether a cell of two runs used to give numbers and fails now, or is no longer planned at all."""
    gone = comparison.pair.new is None and comparison.pair.old is not None and comparison.pair.old.ok
    return comparison.verdict is Verdict.LOST or gone


ORDER = tuple(Verdict)
"""The worst first."""


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Sort by what needs a look first; within one verdict by the largest effect."""

    def rank(comparison: Comparison) -> tuple[bool, int, float, int]:
        trouble, N = is_lost(comparison) or is_regression(comparison), comparison.pair.any.cell.problem.N
        # how far the ratio is from 1, either way
        effect = max(comparison.ratio.value, 1 / comparison.ratio.value) if comparison.ratio else 1.0
        return not trouble, ORDER.index(comparison.verdict), -round(effect, 3), N

    return sorted(comparisons, key=rank)


class Exit(IntEnum):
    """The exit codes of `attnbench gate`. A proven regression is said before lost cells, and these before what is unclear.

    USAGE is said of whatever left no verdict, or one that could not be written: bad input, the machine, the disk.
    """

    FINE = 0
    REGRESSION = 1
    USAGE = 2
    UNCLEAR = 3
    LOST = 4


def exit_of(comparisons: Sequence[Comparison]) -> Exit:
    """Return the code of all cells together; UNCLEAR also where there was nothing to judge."""
    if any(map(is_regression, comparisons)):
        return Exit.REGRESSION
    if any(map(is_lost, comparisons)):
        return Exit.LOST
    judged = any(c.ratio is not None or c.verdict in {Verdict.SAME, Verdict.FASTER} for c in comparisons)
    return Exit.UNCLEAR if not judged or any(c.verdict is Verdict.UNCLEAR for c in comparisons) else Exit.FINE


def looks(most: int) -> list[int]:
    """Return the replicates after which verdicts are made: 5, 10, 20, … up to `most`; each look costs certainty."""
    found = [min(FIRST, most)]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    # a last step of less than half would not be worth its share of the level
    if len(found) > 1 and 2 * (found[-1] - found[-2]) < found[-2]:
        del found[-2]
    return found


def level_of(count: int) -> float:
    """Return the level of each of so many looks, such that all together keep to that of a single look (Bonferroni)."""
    return LEVEL / count


def unclear(comparisons: Sequence[Comparison]) -> set[str]:
    """Return the keys of the cells that more replicates may decide."""
    return {c.pair.any.cell.key for c in comparisons if c.ratio is not None and c.verdict is Verdict.UNCLEAR}
