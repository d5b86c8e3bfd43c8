"""Selfcheck: the plan for comparing one method with itself, and how its processes are numbered.

Both sides are the same cell, so the replicate number tells them apart: the verdicts are numbered one after the other, each
with the replicates of side A first and then those of side B.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from attnbench.schema.cell import Cell
from attnbench.schema.noun import Noun


@dataclass(frozen=True)
class Place:
    """One process of a selfcheck; side 0 is A, side 1 is B."""

    verdict: int
    side: int
    replicate: int


class Selfcheck(Noun):
    """The plan of a selfcheck: how many verdicts there are, and from how many processes a side each of them is found."""

    schema_version: Literal[1] = 1
    sides: tuple[Cell, Cell]
    """A and B: the same cell twice; or, where a slow-down is made on purpose, the method without and with it."""
    verdicts: int = Field(default=200, ge=1)
    replicates: int = Field(default=10, ge=2)
    margin: float = Field(default=0.05, gt=0)
    injected: float = Field(default=0.0, ge=0, description="share by which side B is really slower")

    @property
    def processes(self) -> int:
        """The number of all planned processes; they are numbered from 0."""
        return 2 * self.verdicts * self.replicates

    def number(self, place: Place) -> int:
        """Return the replicate number of a process."""
        return place.replicate + self.replicates * (2 * place.verdict + place.side)

    def place(self, number: int) -> Place:
        """Return the process that a replicate number stands for."""
        row, replicate = divmod(number, self.replicates)
        return Place(*divmod(row, 2), replicate)

    def pair(self, number: int) -> int:
        """Return a number that the two processes of a pair share and that no other pair has."""
        place = self.place(number)
        return place.replicate + self.replicates * place.verdict

    def cell(self, number: int) -> Cell:
        """Return the cell that a process measures."""
        return self.sides[self.place(number).side]
