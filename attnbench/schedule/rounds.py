"""Rounds: replicate after replicate of all cells, in an order that mixes the methods; in one lane, in several, or in turns."""

import random
from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, groupby
from typing import NamedTuple

from attnbench.schedule.cells import CellJobs
from attnbench.schedule.steps import Schedule, Server
from attnbench.schema.cell import Cell


class Bundle(NamedTuple):
    """The cells of one shape, workload and set of conditions, which are compared, and so are measured on one device."""

    number: int
    cells: tuple[Cell, ...]

    def in_order(self, seed: int, replicate: int) -> list[Cell]:
        """Return its cells in the random order of one replicate."""
        return random.Random(f"{seed}/{replicate}/{self.number}").sample(self.cells, len(self.cells))  # noqa: S311 - no secret


def bundles(cells: Sequence[Cell]) -> list[Bundle]:
    """Group cells to bundles; small lengths first."""

    def same(cell: Cell) -> tuple[str, ...]:
        inputs = (cell.inputs, cell.recording, f"{cell.scale!r}")
        conditions = (*inputs, cell.allocator, cell.matmul_precision, cell.clock, cell.batch, str(cell.new_tokens))
        model = "".join(each.model_dump_json() for each in (cell.training, cell.model) if each)
        return (f"{cell.problem.N:020d}", cell.problem.model_dump_json(), cell.workload, *conditions, model)

    groups = (tuple(group) for _, group in groupby(sorted(cells, key=same), key=same))
    return [Bundle(number, group) for number, group in enumerate(groups)]


@dataclass
class Rounds:
    """Shares the bundles of a run out among lanes, each of which measures on a device of its own.

    Round r of a lane takes replicate r of all its cells, so that replicates of one cell lie far apart in time and the methods
    of a bundle close together. Each round has a warm server of its own. In its first round a lane takes one bundle after
    another, as long as there are any; those it keeps.
    """

    lanes: Sequence[CellJobs]
    """The jobs of each; lanes of like devices have one ledger."""
    left: deque[Bundle]
    """Those that any lane may take."""
    own: dict[int, deque[Bundle]] = field(default_factory=dict)
    """Those that only this lane may take, for it began them."""
    taken: dict[int, list[Bundle]] = field(default_factory=dict)

    def schedule(self, lane: int = 0) -> Schedule:
        """Give all jobs of a lane that its ledger does not have yet."""
        jobs, suite = self.lanes[lane], self.lanes[lane].run_info.suite
        while self.own.get(lane) or self.left:
            kept: list[Bundle] = []
            for replicate in range(suite.replicates):
                for bundle in kept if replicate else self._take(lane, kept):
                    for cell in bundle.in_order(suite.seed, replicate):
                        yield from jobs.replicate(cell, replicate, Server((replicate,)))

    def _take(self, lane: int, kept: list[Bundle]) -> Iterator[Bundle]:
        while source := self.own.get(lane) or self.left:
            bundle = source.popleft()
            kept.append(bundle)
            self.taken.setdefault(lane, []).append(bundle)
            yield bundle

    def alike(self, lane: int, other: int) -> bool:
        """Say whether two lanes have like devices, so that one may measure what the other began."""
        return lane != other and self.lanes[lane].ledger is self.lanes[other].ledger

    def give_back(self, lane: int, others: Sequence[int]) -> None:
        """Deal what a lane took, and can no longer measure, out to others."""
        lost = [*self.taken.pop(lane, ()), *self.own.pop(lane, ())]
        for bundle, other in zip(lost, cycle(others or [lane])):
            self.own.setdefault(other, deque()).append(bundle)

    @property
    def unfinished(self) -> list[Bundle]:
        """Those that no lane has taken."""
        return [*self.left, *(bundle for own in self.own.values() for bundle in own)]


def rounds(jobs: CellJobs) -> Schedule:
    """Give all jobs of a run in one lane."""
    return Rounds([jobs], deque(bundles(jobs.run_info.cells))).schedule()


def checks(jobs: CellJobs) -> Schedule:
    """Give the checks of a run, and nothing that is timed."""
    for cell in jobs.run_info.cells:
        yield from jobs.checks(cell, Server((0,)))


def turns(sides: tuple[CellJobs, CellJobs], replicates: range, wanted: Container[str]) -> Schedule:
    """Give the jobs of the wanted cells of two runs in turns: whatever disturbs the machine affects both.

    Each replicate of a cell is measured on both sides, one right after the other, in random order. Each side has its own
    warm server in every round.
    """
    info = sides[0].run_info
    for replicate in replicates:
        order = random.Random(f"{info.suite.seed}/{replicate}/turns")  # noqa: S311 - an order, not a secret
        for bundle in bundles(info.cells):
            for cell in bundle.in_order(info.suite.seed, replicate):
                for side in order.sample((0, 1), 2) if cell.key in wanted else ():
                    yield from sides[side].replicate(cell, replicate, Server((replicate,), side))
