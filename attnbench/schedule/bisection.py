"""Closing in on a crossover: choosing the lengths to measure between those at which two methods lead."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnbench.analyze.cells import NOT_RUN, CellSummary, summarize
from attnbench.analyze.crossover import Crossover, Versus
from attnbench.analyze.quantities import recorded
from attnbench.analyze.sections import sections
from attnbench.schema.cell import Cell
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Suite

_WIDEST = 1.5
"""The largest ratio of two lengths between which the curve is taken to be straight."""
_GRAINS = 8


@dataclass(frozen=True)
class Goal:
    """The two methods, by their labels, and how precisely their crossover is wanted."""

    of: str
    over: str
    metric: str = "time"
    resolution: float = 0.1
    """The share of N, each way."""
    most: int = 6
    """The most lengths that are added to a section."""


def next_length(found: Crossover, tried: Sequence[int], resolution: float) -> int | None:
    """Return the geometric middle of the two lengths around a crossing that is not known well enough; None without such.

    The shortest such crossing comes first. A crossing between lengths that already lie within the resolution is left alone:
    there, only noise makes its interval wide.
    """
    for crossing in found.crossings:
        inside = [length for length in sorted(tried) if crossing.bracket[0] <= length <= crossing.bracket[1]]
        # by how far the crossing lies outside of each, as a ratio; 1 inside
        gaps = sorted(pairwise(inside), key=lambda gap: max(1.0, gap[0] / crossing.length, crossing.length / gap[1]))
        # with an interval, the crossing lies in the nearest gap; with only a bracket, it may lie in any gap of it
        for low, high in gaps if crossing.interval is None else gaps[:1]:
            # rounded to a multiple of a large power of two, as blocked kernels want it
            grain = 1 << max(0, ((high - low) // _GRAINS).bit_length() - 1)
            middle = round(math.sqrt(low * high) / grain) * grain
            # settled once the interval, or without one the bracket, lies within the resolution, and the interpolation is short
            settled = crossing.reach <= 1 + resolution and (crossing.interval is None or high / low <= _WIDEST)
            if high / low > 1 + resolution and low < middle < high and not settled:
                return middle
    return None


def side_by_side(cells: Iterable[Cell], axes: Axes, pair: frozenset[str]) -> tuple[Cell, ...]:
    """Return the cells of two labels, in those sections that have both."""
    found = sections([CellSummary(cell, NOT_RUN) for cell in cells if cell.label in pair], axes)
    kept = {s.cell.key: s.cell for section in found if pair <= section.series.keys() for s in section.summaries}
    return tuple(kept.values())


def wanted(run: RunInfo, goal: Goal, records: Iterable[Record], added: Mapping[str, int]) -> dict[str, int]:
    """Return by title the length that each section needs next, if it does; `added` says how many each was given so far."""
    summaries, found = summarize(run.cells, records), dict[str, int]()
    if (quantity := recorded(summaries, run).get(goal.metric)) is None:
        return found
    for section in sections(summaries, run.suite.axes):
        if added.get(section.title, 0) < goal.most and {goal.of, goal.over} <= section.series.keys():
            versus = Versus(section, goal.of, goal.over, quantity)
            if (N := next_length(versus.crossover, section.lengths, goal.resolution)) is not None:
                found[section.title] = N
    return found


def grown(run: RunInfo, goal: Goal, lengths: Mapping[str, int], cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return the new ones of these cells: of both methods, and each only in a section that needs its length."""
    known = [CellSummary(cell, NOT_RUN) for cell in run.cells]
    planned = [CellSummary(c, NOT_RUN) for c in cells if c.label in {goal.of, goal.over}]
    # the title of a section names more axes where the new cells vary in more, so sections are told by the cells that they had
    titles = {s.cell.key: section.title for section in sections(known, run.suite.axes) for s in section.summaries}
    found = dict[str, Cell]()
    for section in sections([*known, *planned], run.suite.axes):
        wanted_here = {lengths.get(titles.get(s.cell.key, "")) for s in section.summaries}
        found |= {s.cell.key: s.cell for s in section.summaries if s.cell.problem.N in wanted_here}
    return tuple(cell for key, cell in found.items() if key not in titles)


def of_lengths(suite: Suite, lengths: Iterable[int]) -> Suite:
    """Return the same suite on other lengths."""
    return suite.model_copy(update={"axes": suite.axes.model_copy(update={"N": tuple(sorted(set(lengths)))})})
