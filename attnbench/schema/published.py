"""Published: a figure or a claim that others printed, and how the same figure is read off a run."""

import math
from enum import StrEnum
from itertools import chain
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from attnbench.schema.cell import Workload
from attnbench.schema.condition import compile_condition
from attnbench.schema.figures import Figure, OverLengths
from attnbench.schema.noun import Lax, Noun, Scalar


class Comparable(StrEnum):
    """The degree to which a printed figure can be compared with one that was measured here."""

    RATIO = "ratio"
    """The ratio of two methods, which mostly stays the same on other hardware."""
    QUALITY = "quality"
    """How well a model has learnt, which depends on size, data and training time, not on hardware."""
    HARDWARE = "hardware"
    """An absolute figure of one machine: it is shown beside ours, and nothing is judged by it."""
    CLAIM = "claim"
    """An order or a shape that was claimed in words or drawn as a curve."""


class Side(Noun):
    """A choice of cells of a run: by method, by the parameters that are given, and by a condition."""

    method: str = Field(min_length=1, description="a method of the suite")
    params: dict[str, Scalar] = Field(default_factory=dict, description="only cells with these parameters")
    when: str | None = Field(default=None, description="which of its cells, as in `methods`; it must leave one")

    @field_validator("when")
    @classmethod
    def _is_a_condition(cls, value: str | None) -> str | None:
        if value is not None:
            # any name may be a parameter of some method
            compile_condition(value, None)
        return value


Metric = Literal[Figure, OverLengths, "batch"]
"""What can be read off a run: of one cell, or of all lengths together."""


class Ours(Noun):
    """The way a figure is read off a run: a metric of one side, alone, divided by another side's, or minus another side's."""

    metric: Metric = Field(description="what is read off: a figure of a cell, growth, memory_growth, longest or batch")
    workload: Lax[Workload] = Field(description="of which workload")
    of: Side = Field(description="whose figure")
    over: Side | None = Field(default=None, description="divided by whose")
    less: Side | None = Field(default=None, description="minus whose")

    @model_validator(mode="after")
    def _one_comparison(self) -> Self:
        if self.over and self.less:
            raise ValueError("give `over` or `less`, not both")
        return self


Bound = float | Literal["printed"]
"""A number, or the word `printed` for the printed number."""


class Band(Noun):
    """The range in which a figure of ours counts as the published one."""

    at_least: Bound | None = Field(default=None, description="a number, or `printed`")
    at_most: Bound | None = Field(default=None, description="a number, or `printed`")

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give `at_least`, `at_most` or both")
        if isinstance(self.at_least, float) and isinstance(self.at_most, float) and self.at_least > self.at_most:
            raise ValueError("`at_least` is above `at_most`")
        return self

    def ends(self, printed: float | None) -> tuple[float, float]:
        """Return both bounds as numbers, infinite where there is no bound."""
        low, high = (printed if bound == "printed" else bound for bound in (self.at_least, self.at_most))
        return -math.inf if low is None else low, math.inf if high is None else high


class Grid(Noun):
    """A printed table: a number for each pair of values of two names, `down` and `across`; null where none is printed."""

    down: dict[str, tuple[Scalar, ...]] = Field(min_length=1, max_length=1, description="what varies by row, with its values")
    across: dict[str, tuple[Scalar, ...]] = Field(min_length=1, max_length=1, description="the same by column")
    numbers: tuple[tuple[float | None, ...], ...] = Field(description="rows of numbers; null where none is printed")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.down.keys() == self.across.keys():
            raise ValueError(f"down and across are both {next(iter(self.down))!r}; give two names")
        rows, columns = (len(next(iter(axis.values()))) for axis in (self.down, self.across))
        if len(self.numbers) != rows or any(len(row) != columns for row in self.numbers):
            raise ValueError(f"numbers must be {rows} rows of {columns}")
        return self


class Published(Noun):
    """One row of the table `published | reproduced | comparable?`; with a grid, one row for each printed number."""

    where: str = Field(description="Table 1, Figure 2, abstract")
    what: str = Field(description="in words, with the unit")
    says: str = Field(default="n/a", description="as printed, or `2×, computed from 1 / 0.5`; n/a where no figure was found")
    number: float | None = Field(default=None, description="the same as a number, where it is one")
    grid: Grid | None = Field(default=None, description="a printed table, of which each number is a row")
    ours: Ours | None = Field(default=None, description="how the figure is read off a run")
    reproduced: Band | None = Field(default=None, description="fixed before anything is measured; without it nothing is judged")
    comparable: Lax[Comparable] = Field(description="ratio, quality, claim or hardware: what it may be held against")
    needs: str = Field(default="", description="what it would take, where a run of this suite cannot show it")

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if self.ours is None and not self.needs:
            raise ValueError(
                f"{self.where}, {self.what}: say by `ours` how it is read off a run, or by `needs` what it would take"
            )
        by_print = self.reproduced and "printed" in (self.reproduced.at_least, self.reproduced.at_most)
        if by_print and self.grid is None and self.number is None:
            raise ValueError(f"{self.where}, {self.what}: a bound `printed` needs the printed `number`, or a `grid`")
        for printed in chain(*self.grid.numbers) if self.grid else [self.number]:
            low, high = self.reproduced.ends(printed) if self.reproduced else (0, 0)
            if low > high:
                raise ValueError(f"{self.where}, {self.what}: printed is {printed}; at_least {low:g} is above at_most {high:g}")
        return self
