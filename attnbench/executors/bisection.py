"""Closing in on a crossover: choosing the lengths to measure between those at which two methods lead."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from attnbench.analyze.cells import NOT_RUN, CellSummary, summarize
from attnbench.analyze.crossover import Crossover, Versus
from attnbench.analyze.quantities import recorded
from attnbench.analyze.sections import Section, sections
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.local import Asking, LocalExecutor
from attnbench.executors.scout import scout
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Suite

_WIDEST = 1.5
"""The largest ratio of two lengths between which the curve is taken to be straight."""
_GRAINS = 8
Place = tuple[Workload, bool, str]
"""What names a section, however many cells it has by now."""


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
        gaps = sorted(pairwise(inside), key=partial(_distance, crossing.length))
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


def _distance(length: float, gap: tuple[int, int]) -> float:
    """Return how far a length lies outside of a gap, as a ratio; 1 inside."""
    return max(1.0, gap[0] / length, length / gap[1])


def place(section: Section) -> Place:
    """Return what names a section."""
    return (section.workload, section.causal, section.conditions)


def side_by_side(cells: Iterable[Cell], axes: Axes, pair: frozenset[str]) -> tuple[Cell, ...]:
    """Return the cells of two labels, in those sections that have both."""
    found = sections([CellSummary(cell, NOT_RUN) for cell in cells if cell.label in pair], axes)
    kept = {s.cell.key: s.cell for section in found if pair <= section.series.keys() for s in section.summaries}
    return tuple(kept.values())


@dataclass
class Bisection:
    """A run of two methods that grows: it begins with the lengths of their suite, and adds lengths between them."""

    run_info: RunInfo
    goal: Goal
    refusals: dict[str, Failed] = field(default_factory=dict)
    check_cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)
    lane: Lane = field(default_factory=Lane)
    _added: Counter[Place] = field(default_factory=Counter)

    def executor(
        self, records: Iterable[Record], isolation: Callable[[], Asking], on_start: Callable[[Job], object] = id
    ) -> LocalExecutor:
        """Return an executor of all jobs that the run lacks by now."""
        return LocalExecutor(
            self.run_info, Ledger.of(records), self.refusals, self.check_cells, isolation, on_start, lane=self.lane
        )

    def extend(self, records: Iterable[Record], worker: Asking) -> dict[str, int]:
        """Plan the next length of each section that needs one, and return it by the section's title; empty at the end.

        The methods are asked about the new cells. Raises ScoutError, and SuiteError where a `when` rules all of them out.
        """
        summaries = summarize(self.run_info.cells, records)
        if (quantity := recorded(summaries).get(self.goal.metric)) is None:
            return {}
        wanted: dict[Place, int] = {}
        for section in sections(summaries, self.run_info.suite.axes):
            if self._added[place(section)] < self.goal.most and {self.goal.of, self.goal.over} <= section.series.keys():
                versus = Versus(section, self.goal.of, self.goal.over, quantity)
                if (N := next_length(versus.crossover, section.lengths, self.goal.resolution)) is not None:
                    wanted[place(section)] = N
        if not wanted:
            return {}
        scouted = scout(of_lengths(self.run_info.suite, wanted.values()), worker, roof=False)
        # the cells of both methods, each only in the sections that need its length
        planned = [CellSummary(c, NOT_RUN) for c in scouted.cells if c.label in {self.goal.of, self.goal.over}]
        grown = sections([*summaries, *planned], self.run_info.suite.axes)
        cells = [s.cell for section in grown for s in section.summaries if wanted.get(place(section)) == s.cell.problem.N]
        known = {cell.key for cell in self.run_info.cells}
        new = {cell.key: cell for cell in cells if cell.key not in known}
        lengths = {*self.run_info.suite.axes.N, *(cell.problem.N for cell in new.values())}
        self.run_info = self.run_info.model_copy(
            update={
                "cells": (*self.run_info.cells, *new.values()),
                "costs": self.run_info.costs | {key: cost for key, cost in scouted.costs().items() if key in new},
                "suite": of_lengths(self.run_info.suite, lengths),
            }
        )
        self.refusals |= scouted.refusals()
        self.check_cells |= scouted.check_cells()
        self._added.update(wanted.keys())
        return {Section(*where, ()).title: N for where, N in wanted.items()} if new else {}


def of_lengths(suite: Suite, lengths: Iterable[int]) -> Suite:
    """Return the same suite on other lengths."""
    return suite.model_copy(update={"axes": suite.axes.model_copy(update={"N": tuple(sorted(set(lengths)))})})
