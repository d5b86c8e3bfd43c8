"""Rounds: replicate after replicate of all cells, in an order that mixes the methods; of one run, or of two in turns."""

import random
from collections.abc import Container, Iterator, Sequence
from itertools import groupby

from attnbench.schedule.cells import CellJobs
from attnbench.schedule.steps import Schedule, Server
from attnbench.schema.cell import Cell


def blocks(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group the cells of one shape, workload and set of conditions, which are compared; small lengths first."""

    def block(cell: Cell) -> tuple[str, ...]:
        inputs = (cell.inputs, cell.recording, f"{cell.scale!r}")
        conditions = (*inputs, cell.allocator, cell.matmul_precision, cell.clock, cell.batch)
        model = cell.training.model_dump_json() if cell.training else ""
        return (f"{cell.problem.N:020d}", cell.problem.model_dump_json(), cell.workload, *conditions, model)

    return [list(group) for _, group in groupby(sorted(cells, key=block), key=block)]


def in_order(cells: Sequence[Cell], seed: int, replicate: int) -> Iterator[Cell]:
    """Give the cells of one replicate, block after block, within a block in random order."""
    for number, block in enumerate(blocks(cells)):
        random.Random(f"{seed}/{replicate}/{number}").shuffle(block)  # noqa: S311 - an order, not a secret
        yield from block


def rounds(jobs: CellJobs) -> Schedule:
    """Give all jobs that the ledger does not have yet.

    Round r takes replicate r of every cell, so that replicates of one cell lie far apart in time and the methods of a block
    close together. Each round has a warm server of its own.
    """
    info = jobs.run_info
    for replicate in range(info.suite.replicates):
        for cell in in_order(info.cells, info.suite.seed, replicate):
            yield from jobs.replicate(cell, replicate, Server((replicate,)))


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
        for cell in in_order(info.cells, info.suite.seed, replicate):
            for side in order.sample((0, 1), 2) if cell.key in wanted else ():
                yield from sides[side].replicate(cell, replicate, Server((replicate,), side))
