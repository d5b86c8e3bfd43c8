"""Two runs of the same cells in turns, so that what the machine does meanwhile falls on both."""

import random
from collections.abc import Container, Iterator
from dataclasses import dataclass

from attnbench.executors.base import in_order
from attnbench.executors.local import LocalExecutor
from attnbench.schema.record import Record


@dataclass
class Interleaved:
    """Each replicate of a cell is measured on both sides, one right after the other, in random order.

    Both sides have the same cells, and each its own warm server in every round.
    """

    sides: tuple[LocalExecutor, LocalExecutor]

    def run(self, replicates: range, wanted: Container[str]) -> Iterator[tuple[int, Record]]:
        """Side and record as they come, of the cells whose keys are wanted; the caller stores each before the next."""
        info = self.sides[0].run_info
        for replicate in replicates:
            turns = random.Random(f"{info.suite.seed}/{replicate}/turns")  # noqa: S311 - an order, not a secret
            with self.sides[0].round(), self.sides[1].round():
                for cell in in_order(info.cells, info.suite.seed, replicate):
                    for side in turns.sample((0, 1), 2) if cell.key in wanted else ():
                        for record in self.sides[side].replicate(cell, replicate):
                            yield side, record

    def interrupted(self) -> list[tuple[int, Record]]:
        """The records of jobs that an interruption ended."""
        return [(i, record) for i, side in enumerate(self.sides) if (record := side.interrupted()) is not None]
