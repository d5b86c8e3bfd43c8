"""Where a cell stands under the roof (Williams, Waterman and Patterson 2009): what it does for each byte, and how fast."""

from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.schema.run import RunInfo


@dataclass(frozen=True)
class Placed:
    """One cell that has a time, a cost and a roof."""

    intensity: float
    """Executed FLOPs per byte of the least traffic, both by the method's cost."""
    flops_per_second: float
    """Executed FLOPs over the median time."""
    roof: float
    """FLOPs per second that the run's own roof allows at this intensity."""

    @property
    def above(self) -> bool:
        """Whether it is faster than the roof: what it touches stayed in cache, or something is wrong."""
        return self.flops_per_second > self.roof


def placed(summary: CellSummary, run: RunInfo) -> Placed | None:
    """None where the cell has no time, its method no cost (or no product, or no traffic), or its dtype no roof."""
    cost = run.costs.get(summary.cell.key)
    roof = run.surroundings.roof.get(summary.cell.ceiling)
    if cost is None or roof is None or not summary.median or not cost.executed_flops or not cost.traffic_bytes:
        return None
    # costs are stated for the problem's batch, and grow with it
    flops = cost.executed_flops * summary.B / summary.cell.problem.B
    intensity = cost.executed_flops / cost.traffic_bytes
    allowed = min(roof.flops_per_second, intensity * roof.bytes_per_second)
    return Placed(intensity, flops / summary.median, allowed)
