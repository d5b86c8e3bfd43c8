"""Closing in on a crossover: which lengths to measure between those at which two methods lead."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from attnbench.analyze.cells import NOT_RUN, CellSummary, summarize
from attnbench.analyze.crossover import Crossing, Crossover
from attnbench.analyze.metric import metrics
from attnbench.analyze.sections import Section, sections
from attnbench.analyze.versus import Versus
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.local import Asking, LocalExecutor
from attnbench.executors.scout import Scouted, scout
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Suite

_WIDEST = 1.5
"""Between two lengths farther apart than this the curve is not taken to be straight without a look."""
_GRAINS = 8
Place = tuple[Workload, bool, str]
"""A section, however many cells it has by now."""


@dataclass(frozen=True)
class Goal:
    """What is asked, and how near to come; `of` and `over` are labels."""

    of: str
    over: str
    metric: str = "time"
    resolution: float = 0.1
    """Of N, each way."""
    most: int = 6
    """Lengths added to a section."""


def next_length(found: Crossover, tried: Sequence[int], resolution: float) -> int | None:
    """The middle, in logarithms, of the two lengths around a crossing that is not known well enough; None where none is.

    The shortest such crossing comes first. One between lengths that already lie within the resolution is left alone: what
    is wide there is the noise.
    """
    for crossing in found.crossings:
        for low, high in _gaps(crossing, tried):
            middle = _middle(low, high)
            if high / low > 1 + resolution and low < middle < high and not settled(crossing, resolution, high / low):
                return middle
    return None


def _gaps(crossing: Crossing, tried: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring lengths around the crossing; where only a bracket is known, all that lie in it, the nearest first."""
    inside = [length for length in sorted(tried) if crossing.bracket[0] <= length <= crossing.bracket[1]]
    gaps = sorted(pairwise(inside), key=lambda gap: max(1.0, gap[0] / crossing.length, crossing.length / gap[1]))
    return gaps if crossing.interval is None else gaps[:1]


def settled(crossing: Crossing, resolution: float, gap: float) -> bool:
    """Whether the interval, or without one the bracket, lies within the resolution, and the interpolation is a short one."""
    return crossing.reach <= 1 + resolution and (crossing.interval is None or gap <= _WIDEST)


def _middle(low: int, high: int) -> int:
    """A multiple of a large power of two, as blocked kernels want it."""
    grain = 1 << max(0, ((high - low) // _GRAINS).bit_length() - 1)
    return round(math.sqrt(low * high) / grain) * grain


def place(section: Section) -> Place:
    """The name of a section."""
    return (section.workload, section.causal, section.conditions)


def side_by_side(cells: Iterable[Cell], axes: Axes, pair: frozenset[str]) -> tuple[Cell, ...]:
    """The cells of two labels, in those sections that have both."""
    found = sections([CellSummary(cell, NOT_RUN) for cell in cells if cell.label in pair], axes)
    kept = {s.cell.key: s.cell for section in found if pair <= section.series.keys() for s in section.summaries}
    return tuple(kept.values())


@dataclass
class Bisection:
    """Two methods on the lengths of their suite first, then on lengths between: a run that grows."""

    run_info: RunInfo
    goal: Goal
    refusals: dict[str, Failed] = field(default_factory=dict)
    check_cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)
    lane: Lane = field(default_factory=Lane)
    _added: Counter[Place] = field(default_factory=Counter)

    def executor(
        self, records: Iterable[Record], isolation: Callable[[], Asking], on_start: Callable[[Job], object] = id
    ) -> LocalExecutor:
        """What measures all that the run lacks by now."""
        return LocalExecutor(
            self.run_info, Ledger.of(records), self.refusals, self.check_cells, isolation, on_start, lane=self.lane
        )

    def extend(self, records: Iterable[Record], worker: Asking) -> dict[str, int]:
        """Plan the next length of each section that wants one; by section title what was planned, nothing at the end.

        The methods are asked about the new cells; raises ScoutError, and SuiteError where a `when` rules all of them out.
        """
        summaries = summarize(self.run_info.cells, records)
        wanted = self._wanted(summaries)
        if not wanted:
            return {}
        scouted = scout(of_lengths(self.run_info.suite, wanted.values()), worker, roof=False)
        new = self._new_cells(summaries, scouted, wanted)
        self._take(scouted, new)
        self._added.update(wanted.keys())
        return {Section(*where, ()).title: N for where, N in wanted.items()} if new else {}

    def _wanted(self, summaries: Sequence[CellSummary]) -> dict[Place, int]:
        metric = metrics(summaries).get(self.goal.metric)
        if metric is None:
            return {}
        found: dict[Place, int] = {}
        for section in sections(summaries, self.run_info.suite.axes):
            if self._added[place(section)] < self.goal.most and {self.goal.of, self.goal.over} <= section.series.keys():
                versus = Versus(section, self.goal.of, self.goal.over, metric)
                N = next_length(versus.crossover, section.lengths, self.goal.resolution)
                if N is not None:
                    found[place(section)] = N
        return found

    def _new_cells(self, summaries: Sequence[CellSummary], scouted: Scouted, wanted: dict[Place, int]) -> list[Cell]:
        """Those of both methods, each only in the sections that want its length."""
        planned = [CellSummary(c, NOT_RUN) for c in scouted.cells if c.label in {self.goal.of, self.goal.over}]
        grown = sections([*summaries, *planned], self.run_info.suite.axes)
        cells = [s.cell for section in grown for s in section.summaries if wanted.get(place(section)) == s.cell.problem.N]
        known = {cell.key for cell in self.run_info.cells}
        return [cell for key, cell in {cell.key: cell for cell in cells}.items() if key not in known]

    def _take(self, scouted: Scouted, new: Sequence[Cell]) -> None:
        keys = {cell.key for cell in new}
        lengths = {*self.run_info.suite.axes.N, *(cell.problem.N for cell in new)}
        self.run_info = self.run_info.model_copy(
            update={
                "cells": (*self.run_info.cells, *new),
                "costs": self.run_info.costs | {key: cost for key, cost in scouted.costs().items() if key in keys},
                "suite": of_lengths(self.run_info.suite, lengths),
            }
        )
        self.refusals |= scouted.refusals()
        self.check_cells |= scouted.check_cells()


def of_lengths(suite: Suite, lengths: Iterable[int]) -> Suite:
    """The same suite on other lengths."""
    return suite.model_copy(update={"axes": suite.axes.model_copy(update={"N": tuple(sorted(set(lengths)))})})
