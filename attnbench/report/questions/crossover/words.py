"""A crossover in words: where a method leads, where it cannot be told, where one of the two does not run."""

import math
from collections.abc import Mapping, Sequence

from attnbench.analyze.crossover import Crossing, Stretch
from attnbench.analyze.metric import MEMORY, STATE_BYTES, TIME
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.versus import NO_FIGURE, NOT_PLANNED, Versus
from attnbench.report.text.statuses import short
from attnbench.schema.outcome import (
    ACCURACY,
    BITS,
    COSINE,
    GRADIENT_ROUNDING,
    LOSS,
    MASS_RECALL,
    OUTPUT_ERROR,
    ROUNDING,
    TOP_OVERLAP,
)

Names = Mapping[str, str]
"""By label, how a method is called."""
_BEATS = {
    TIME: "is faster than",
    MEMORY: "needs less memory than",
    STATE_BYTES: "keeps a smaller state than",
    ROUNDING: "is rounded less than",
    GRADIENT_ROUNDING: "has gradients that are rounded less than",
    OUTPUT_ERROR: "has a smaller error than",
    MASS_RECALL: "finds more of the exact attention than",
    COSINE: "is nearer to the exact output in direction than",
    TOP_OVERLAP: "prefers more of the exact top keys than",
    LOSS: "has learnt to a smaller loss than",
    BITS: "needs fewer bits than",
    ACCURACY: "is right more often than",
}


def sentence(versus: Versus, names: Names) -> str:
    """`from N = 3,120 [2,910–3,380] on, linear.chunked is faster than softmax.sdpa, forward, causal, float32`."""
    of, over, found = names[versus.of], names[versus.over], versus.crossover
    if not found.lengths:
        return f"there is no length at which both {of} and {over} have a figure, {versus.section.title}"
    if stretches := where(versus):
        text = f"{stretches}, {of} {beats(versus)} {over}, {versus.section.title}"
    elif not found.told:
        text = f"{of} and {over} cannot be told apart at N = {among(found.lengths, found.lengths)}, {versus.section.title}"
    else:
        about = f"none up to N = {found.lengths[-1]:,}, the longest length compared"
        text = f"{about}: {over} stays ahead of {of}, {versus.section.title}"
    return text + doubt(versus)


def beats(versus: Versus) -> str:
    """What the one that leads does."""
    return _BEATS.get(versus.metric.name, f"has less {versus.metric.name} than")


def doubt(versus: Versus) -> str:
    """That it is a first look, where it is one."""
    count = versus.crossover.replicates
    if not versus.metric.replicated or not 0 < count < ENOUGH:
        return ""
    return f" (first look, {count} replicate{'s' if count > 1 else ''}: cannot tell)"


def where(versus: Versus) -> str:
    """The lengths over which `of` leads; empty where there are none."""
    return " and ".join(_stretch(versus, stretch) for stretch in versus.crossover.stretches)


def _stretch(versus: Versus, stretch: Stretch) -> str:
    found = versus.crossover
    shortest, longest, first, last = found.lengths[0], found.lengths[-1], found.told[0], found.told[-1]
    if stretch.start is not None:
        start = f"from {_edge(versus, stretch.start)}"
    else:
        start = f"from the shortest length compared ({first:,})" if first == shortest else f"at the latest from N = {first:,}"
    if stretch.end is not None:
        return f"{start} to {_edge(versus, stretch.end)}"
    return f"{start} on" if last == longest else f"{start} to N = {last:,} at least"


def _edge(versus: Versus, crossing: Crossing) -> str:
    low, high = crossing.bracket
    if crossing.interval is not None:
        return f"N = {rounded(crossing.length)} [{rounded(crossing.interval.low)}–{rounded(crossing.interval.high)}]"
    if versus.metric.replicated:
        return f"somewhere between N = {low:,} and {high:,}"
    return f"about N = {rounded(crossing.length)} (between {low:,} and {high:,})"


def rounded(N: float) -> str:
    """Three digits of a length that was not measured: 3,120."""
    digits = min(0, 2 - math.floor(math.log10(N)))
    return f"{round(N, digits):,.0f}"


def remarks(versus: Versus, names: Names) -> list[str]:
    """What else there is to say: lengths at which it cannot be told, and those at which not both have figures."""
    lines = []
    if (ties := versus.crossover.ties) and versus.crossover.told:
        lines.append(
            f"at N = {among(ties, versus.section.lengths)} {names[versus.of]} and {names[versus.over]} cannot be told apart"
        )
    grouped: dict[tuple[str, str], list[int]] = {}
    for gap in versus.gaps:
        grouped.setdefault((gap.of, gap.over), []).append(gap.N)
    return lines + [_alone(versus, names, statuses, lengths) for statuses, lengths in grouped.items()]


def _alone(versus: Versus, names: Names, statuses: tuple[str, str], lengths: Sequence[int]) -> str:
    of, over, at = names[versus.of], names[versus.over], f"at N = {among(lengths, versus.section.lengths)}"
    of_status, over_status = statuses
    if of_status and over_status:
        return f"{at} neither has a figure ({of}: {short(of_status)}; {over}: {short(over_status)})"
    one, other, status = (over, of, of_status) if of_status else (of, over, over_status)
    does, does_not = ("has a figure", "has none") if status in {NOT_PLANNED, NO_FIGURE} else ("runs", "does not")
    return f"{at} {one} {does} and {other} {does_not} ({short(status)})"


def listed(lengths: Sequence[int]) -> str:
    """`512, 1,024 and 2,048`."""
    words = [f"{N:,}" for N in lengths]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def among(lengths: Sequence[int], known: Sequence[int]) -> str:
    """`512 to 65,536` where more than three lengths leave none between them out, else a list."""
    first, last = known.index(lengths[0]), known.index(lengths[-1])
    whole = len(lengths) > 3 and list(known[first : last + 1]) == list(lengths)
    return f"{lengths[0]:,} to {lengths[-1]:,}" if whole else listed(lengths)
