"""Statements in words: a clause on who is ahead and where, and what is to be added behind the conditions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.crossover import Crossing, Crossover, Stretch
from attnbench.analyze.headline import Ahead, Foremost, Reach, Tied
from attnbench.analyze.metric import TIME
from attnbench.analyze.statistics import ENOUGH, Interval
from attnbench.analyze.versus import NOT_PLANNED, Versus
from attnbench.report.questions.crossover.words import among, listed
from attnbench.report.text.statuses import short
from attnbench.schema.outcome import LOSS, OUTPUT_ERROR, ROUNDING

Names = Mapping[str, str]
"""By label, how a method is called."""
_FEW = 3
"""Names in a sentence; of more the others are counted."""
_STEPS = 4
"""Of the last digit that is shown, in an interval at least."""


@dataclass(frozen=True)
class Said:
    """A clause, and what follows behind the conditions."""

    main: str
    tail: str = ""


@dataclass(frozen=True)
class _Verbs:
    beats: str
    all_beat: str
    most: str


_VERBS = {
    TIME: _Verbs("is faster than", "are faster than", "is the fastest"),
    ROUNDING: _Verbs("is rounded less than", "are rounded less than", "is rounded the least"),
    OUTPUT_ERROR: _Verbs("has a smaller error than", "have smaller errors than", "has the smallest error"),
    LOSS: _Verbs("learns more than", "learn more than", "learns the most"),
}


def verbs(metric: str) -> _Verbs:
    """Of the metrics that statements are made on."""
    return _VERBS[metric]


def ahead(found: Ahead, names: Names) -> Said:
    """`from N = 3,100 [2,900–3,400] on, a is faster than b`; and `b has no number from N = 32,768 on (OOM)`."""
    versus = found.versus
    of, over = names[versus.of], names[versus.over]
    main = f"{where(versus)}, {of}{_among_all(found)} {verbs(versus.metric.name).beats} {over}"
    missing = [_without(versus, of, _lost(versus)), _without(versus, over, _alone(versus))]
    return Said(main, "".join(f"; {tail}" for tail in (_ties(versus), *missing) if tail))


def foremost(found: Foremost, names: Names, metric: str) -> Said:
    """`from N = 2,048 on at the latest, a is the fastest of 4 methods`."""
    return Said(f"{_over(found.reach)}, {names[found.label]} {verbs(metric).most} of {found.best.count} methods")


def tied(found: Tied, names: Names, metric: str) -> Said:
    """`at every length compared, …, a and b are faster than c; which of them is the fastest at N = 1,024 cannot be told`."""
    words, best = verbs(metric), _several([names[label] for label in found.best.labels])
    if found.over is None:
        return Said(f"cannot tell which {words.most} at N = {found.best.N:,}: {best} cannot be told apart")
    which = f"which of them {words.most} at N = {found.best.N:,} cannot be told"
    return Said(f"{_over(found.reach)}, {best} {words.all_beat} {names[found.over]}; {which}")


def where(versus: Versus) -> str:
    """The lengths over which `of` leads; it is the one that leads last."""
    found = versus.crossover
    if len(found.lengths) == 1:
        return f"at N = {found.lengths[0]:,}, the only length that both reach"
    *before, last = found.stretches
    if not before and _is_everywhere(found, last):
        return _everywhere(versus)
    return " and ".join([*(_stretch(found, each) for each in before), _last(versus, last)])


def _is_everywhere(found: Crossover, last: Stretch) -> bool:
    return last.start is None and (found.told[0], found.told[-1]) == (found.lengths[0], found.lengths[-1])


def _everywhere(versus: Versus) -> str:
    found, what = versus.crossover, "that both reach" if versus.gaps else "measured"
    but = f" but {listed(found.ties)}" if found.ties else ""
    return f"at every length {what}, N = {among(found.lengths, found.lengths)}{but}"


def _stretch(found: Crossover, stretch: Stretch) -> str:
    """One that came to an end, between measured lengths: a sentence has one interval, that it may be wrong no more often."""
    assert stretch.end is not None
    end = _between(stretch.end)
    if stretch.start is not None:
        return f"from {_between(stretch.start)} to {end}"
    first = found.told[0]
    return f"{'up' if first == found.lengths[0] else f'from N = {first:,}'} to {end}"


def _last(versus: Versus, last: Stretch) -> str:
    found = versus.crossover
    first, final, longest = found.told[0], found.told[-1], found.lengths[-1]
    whole = last.start is None and first == found.lengths[0]
    start = edge(last.start) if last.start is not None else f"N = {first:,}"
    if final != longest:
        alone = last.start is None and first == final
        return f"at N = {final:,}" if alone else f"{'up' if whole else f'from {start}'} to N = {final:,} at least"
    late = "" if last.start is not None else " at the latest"
    if any(gap.of for gap in versus.gaps if longest < gap.N):
        return f"from {start}{late} to N = {final:,}"
    return f"from {start} on{late}"


def edge(crossing: Crossing) -> str:
    """`N = 3,100 [2,900–3,400]`; without an interval the measured lengths that it lies between."""
    if crossing.interval is None:
        return _between(crossing)
    low, N, high = rough(crossing.length, crossing.interval)
    return f"N = {N:,} [{low:,}–{high:,}]"


def _between(crossing: Crossing) -> str:
    low, high = crossing.bracket
    return f"somewhere between N = {low:,} and {high:,}"


def rough(N: float, interval: Interval) -> tuple[int, int, int]:
    """Low, N and high in two digits, or three where the interval is narrow; the ends are rounded away from N."""
    coarse = 10 ** max(0, math.floor(math.log10(N)) - 1)
    step = coarse if interval.high - interval.low >= _STEPS * coarse else max(1, coarse // 10)
    low, high = math.floor(interval.low / step) * step, math.ceil(interval.high / step) * step
    return max(1, low), max(1, round(N / step) * step), high


def _among_all(found: Ahead) -> str:
    """That it is the best of many, where that can be told."""
    best = found.best
    sure = best.labels == (found.versus.of,) and best.replicates >= ENOUGH and best.count > 2
    return f", the fastest of {best.count} methods at N = {best.N:,}," if sure and found.versus.metric.name == TIME else ""


def _ties(versus: Versus) -> str:
    """Lengths at which it cannot be told who leads, though one does before."""
    found = versus.crossover
    late = [N for N in found.ties if found.told[0] < N]
    if not late or _is_everywhere(found, found.stretches[-1]):
        return ""
    return f"{_at(late, versus.section.lengths)} they cannot be told apart"


def _alone(versus: Versus) -> list[tuple[int, str]]:
    """Lengths at which only the rival has no figure, with its status."""
    return [(gap.N, gap.over) for gap in versus.gaps if gap.over and not gap.of]


def _lost(versus: Versus) -> list[tuple[int, str]]:
    """Lengths at which the one that leads has none."""
    return [(gap.N, gap.of) for gap in versus.gaps if gap.of]


def _without(versus: Versus, name: str, gaps: Sequence[tuple[int, str]]) -> str:
    """`a has no number at N = 16,384 (OOM) and from N = 32,768 on (budget)`; empty where there is no gap."""
    by_status: dict[str, list[int]] = {}
    for N, status in gaps:
        # what a suite leaves out is no failure; only at the long end it limits what can be said
        if status != NOT_PLANNED or versus.crossover.lengths[-1] < N:
            by_status.setdefault(short(status), []).append(N)
    at = [f"{_at(lengths, versus.section.lengths)} ({status})" for status, lengths in by_status.items()]
    return f"{name} has no number {' and '.join(at)}" if at else ""


def _at(lengths: Sequence[int], known: Sequence[int]) -> str:
    """`from N = 32,768 on` where several are the longest of those known."""
    if len(lengths) > 1 and tuple(known[-len(lengths) :]) == tuple(lengths):
        return f"from N = {lengths[0]:,} on"
    return f"at N = {among(lengths, known)}"


def _over(reach: Reach) -> str:
    """The lengths that somebody leads at."""
    led, compared = reach.led, reach.compared
    if len(led) == 1:
        return f"at N = {led[0]:,}"
    if led == compared:
        return f"at every length compared, N = {among(led, led)}"
    return f"from N = {led[0]:,} on at the latest" if led[-1] == compared[-1] else f"from N = {led[0]:,} to {led[-1]:,}"


def _several(names: Sequence[str]) -> str:
    """`a, b and c`, or of more `a, b, c and 9 others`."""
    shown, more = list(names[:_FEW]), len(names) - _FEW
    if more > 0:
        return f"{', '.join(shown)} and {more} other{'s' if more > 1 else ''}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
