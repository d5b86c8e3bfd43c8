"""The place of a cell under the highest roof that was measured in its environment (Williams, Waterman and Patterson 2009)."""

from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.schema.errand import Roof
from attnbench.schema.run import RunInfo


@dataclass(frozen=True)
class Placed:
    """A cell that has a time, a cost and a roof."""

    flops: float
    """Executed FLOPs of the batch that ran, by the method's cost."""
    traffic: float
    """Bytes that the batch moves at least, by the method's cost."""
    seconds: float
    """Median time of a call."""
    roof: Roof

    @property
    def intensity(self) -> float:
        """Executed FLOPs per byte of least traffic."""
        return self.flops / self.traffic

    @property
    def flops_per_second(self) -> float:
        """Executed FLOPs over the median time."""
        return self.flops / self.seconds

    @property
    def floor_seconds(self) -> float:
        """The least time of a call by its cost and the roof."""
        return self.roof.floor(self.flops, self.traffic)

    @property
    def above(self) -> bool:
        """Whether it is faster than the roof: what it touches stayed in cache, or something is wrong."""
        return self.seconds < self.floor_seconds

    @property
    def in_cache(self) -> bool:
        """Whether it is above the roof of memory alone: what a call touches may stay in cache, the roof's copy does not."""
        return self.above and self.flops / self.roof.flops_per_second <= self.seconds

    @property
    def warning(self) -> str:
        """Say what is odd about a time below the floor; empty of all others."""
        if not self.above:
            return ""
        floor = f"below the roof's floor of {self.floor_seconds:.3g} s"
        if self.in_cache:
            return f"{floor}, which is that of memory: what a call touches stayed in cache"
        return f"{floor}: an error of measurement, of the roof or of the cost formula"


def placed(summary: CellSummary, run: RunInfo) -> Placed | None:
    """Return where a cell stands; None where it has no time, its method no cost, or its dtype no roof."""
    cost, roof = run.costs.get(summary.cell.key), run.on(summary.environment).surroundings.roof.get(summary.cell.ceiling)
    if cost is None or roof is None or not summary.median:
        return None
    # costs are stated for the problem's batch, and grow with it
    grown = summary.B / summary.cell.problem.B
    return Placed(cost.executed_flops * grown, cost.traffic_bytes * grown, summary.median, roof)
