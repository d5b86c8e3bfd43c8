"""Comparisons: the cells of two sides, one with one, and what may be said of each.

Time is judged by replicates; memory, which hardly varies, by its size alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.verdict import LEVEL, MARGIN, Verdict, judge

SMALLEST_BYTES = 2**20
"""Changes of memory below this are never worth a word: page sizes and pools."""


@dataclass(frozen=True)
class Pair:
    """One cell on both sides; a side where it was never planned is None."""

    old: CellSummary | None
    new: CellSummary | None

    @property
    def any(self) -> CellSummary:
        """The new side, or the old where there is no new one."""
        found = self.new or self.old
        assert found is not None
        return found


@dataclass(frozen=True)
class MemoryChange:
    """Bytes per sample by one counter on both sides."""

    old: float
    new: float
    verdict: Verdict
    """FASTER stands for less."""

    @property
    def value(self) -> float:
        """New over old."""
        return self.new / self.old


@dataclass(frozen=True)
class Comparison:
    """What may be said of one pair."""

    pair: Pair
    verdict: Verdict
    ratio: Ratio | None = None
    memory: MemoryChange | None = None
    reason: str = ""
    """Why there is no ratio."""

    @property
    def effect(self) -> float:
        """How far from 1, either way; 1 where there is no ratio."""
        return 1.0 if self.ratio is None else max(self.ratio.value, 1 / self.ratio.value)


@dataclass(frozen=True)
class Terms:
    """Under which pairs are judged."""

    margin: float = MARGIN
    level: float = LEVEL
    paired: bool = False
    """Whether replicates of one number were measured side by side."""


def same_cells(old: Iterable[CellSummary], new: Iterable[CellSummary]) -> list[Pair]:
    """Of two runs: cells of one key, in the order of the new run; what only the old one has comes last."""
    known = {summary.cell.key: summary for summary in old}
    pairs = [Pair(known.pop(summary.cell.key, None), summary) for summary in new]
    return pairs + [Pair(summary, None) for summary in known.values()]


def compare(pairs: Sequence[Pair], terms: Terms, counter: MainCounter | None = None) -> list[Comparison]:
    """One comparison a pair, in order; false discoveries are controlled over all of them together."""
    ratios = {i: found for i, pair in enumerate(pairs) if (found := _ratio(pair, terms)) is not None}
    verdicts = dict(zip(ratios, judge(list(ratios.values()), terms.margin, terms.level), strict=True))
    return [
        _comparison(pair, ratios[i], verdicts[i], _memory(pair, terms, counter)) if i in ratios else _without_ratio(pair)
        for i, pair in enumerate(pairs)
    ]


def _ratio(pair: Pair, terms: Terms) -> Ratio | None:
    """Of times per sample; None where a side has none."""
    old, new = pair.old, pair.new
    if old is None or new is None or not (old.ok and new.ok and old.medians and new.medians):
        return None
    if terms.paired and not old.medians.keys() & new.medians.keys():
        return None
    return ratio(old.times, new.times, paired=terms.paired)


def _comparison(pair: Pair, ratio: Ratio, verdict: Verdict, memory: MemoryChange | None) -> Comparison:
    few = "one replicate a side: nothing is known of chance" if ratio.interval is None else ""
    return Comparison(pair, verdict, ratio, memory, few)


def _without_ratio(pair: Pair) -> Comparison:
    old, new = pair.old, pair.new
    if old is None or new is None:
        return Comparison(pair, Verdict.ABSENT, reason=f"no such cell on the {'old' if old is None else 'new'} side")
    if old.ok and not new.ok:
        return Comparison(pair, Verdict.LOST, reason=_words(new))
    if new.ok and not old.ok:
        return Comparison(pair, Verdict.GAINED, reason=f"before, {_words(old)}")
    return Comparison(pair, Verdict.ABSENT, reason=_words(new) if not new.ok else "it was not timed")


def _words(summary: CellSummary) -> str:
    return f"{summary.status}: {summary.reason}" if summary.reason else summary.status


def _memory(pair: Pair, terms: Terms, counter: MainCounter | None) -> MemoryChange | None:
    """By the one counter that both sides were read by."""
    if counter is None or pair.old is None or pair.new is None:
        return None
    old, new = counter.per_sample(pair.old), counter.per_sample(pair.new)
    return MemoryChange(old, new, _memory_verdict(old, new, terms.margin)) if old and new else None


def _memory_verdict(old: float, new: float, margin: float) -> Verdict:
    if abs(new - old) <= SMALLEST_BYTES or max(old, new) <= min(old, new) * (1 + margin):
        return Verdict.SAME
    return Verdict.SLOWER if new > old else Verdict.FASTER


def is_regression(comparison: Comparison) -> bool:
    """Slower, or of more memory, beyond the margin."""
    return comparison.verdict is Verdict.SLOWER or (
        comparison.memory is not None and comparison.memory.verdict is Verdict.SLOWER
    )


def is_lost(comparison: Comparison) -> bool:
    """It used to give numbers and fails now, or is no longer planned at all."""
    gone = comparison.pair.new is None and comparison.pair.old is not None and comparison.pair.old.ok
    return comparison.verdict is Verdict.LOST or gone


ORDER = (Verdict.LOST, Verdict.SLOWER, Verdict.UNCLEAR, Verdict.FASTER, Verdict.GAINED, Verdict.SAME, Verdict.ABSENT)
"""The worst first."""


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """What needs a look comes first; within one verdict the largest effect."""

    def rank(comparison: Comparison) -> tuple[bool, int, float, int]:
        trouble, N = is_lost(comparison) or is_regression(comparison), comparison.pair.any.cell.problem.N
        return not trouble, ORDER.index(comparison.verdict), -round(comparison.effect, 3), N

    return sorted(comparisons, key=rank)
