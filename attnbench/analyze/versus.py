"""Two methods of one section side by side: where they change places, and where only one of them has a figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.crossover import Crossover, crossover
from attnbench.analyze.metric import Metric
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baselines

NOT_PLANNED, NO_FIGURE = "not in the suite", "n/a"


@dataclass(frozen=True)
class Gap:
    """A length at which at least one of the two has no figure; the status is empty of one that has."""

    N: int
    of: str
    over: str


@dataclass(frozen=True)
class Versus:
    """Method `of` against method `over`, by one metric; both are labels."""

    section: Section
    of: str
    over: str
    metric: Metric

    @cached_property
    def crossover(self) -> Crossover:
        """Over all lengths at which both have figures."""
        values = [
            {N: found for N in self.section.lengths if (found := self.metric.of(self.section.at(label, N)))}
            for label in (self.of, self.over)
        ]
        return crossover(*values)

    @property
    def gaps(self) -> list[Gap]:
        """Every length that could not be compared, rising."""
        gaps = [Gap(N, *(self._status(self.section.at(label, N)) for label in (self.of, self.over))) for N in self._uncompared]
        return [gap for gap in gaps if gap.of or gap.over]

    @property
    def _uncompared(self) -> list[int]:
        return [N for N in self.section.lengths if N not in self.crossover.leads]

    def _status(self, cell: CellSummary | None) -> str:
        if cell is None:
            return NOT_PLANNED
        if not cell.ok:
            return cell.status
        return "" if self.metric.of(cell) else NO_FIGURE

    @property
    def cells(self) -> tuple[CellSummary, ...]:
        """Of both methods."""
        return (*self.section.series[self.of], *self.section.series[self.over])


def baseline(section: Section, named: Sequence[str] = ()) -> str | None:
    """The label that the others are compared with: a method that the suite names, else the strongest exact softmax.

    Chosen once for all lengths: at the longest one at which the most methods have numbers, or else at the longest at which
    there is any such method.
    """
    for N in (section.common_length, *reversed(section.lengths)):
        found = baselines(section.ok_at(N).values(), named) if N is not None else []
        if found:
            return found[0].cell.label
    return None
