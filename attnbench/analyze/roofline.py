"""Measured time against the roof that was measured in the same run."""

from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.schema.run import RunInfo


@dataclass(frozen=True)
class RoofShare:
    """The least time of a call by its cost and the roof, in seconds, and its share of the measured time."""

    floor_seconds: float
    fraction: float
    by_flops: float
    """The share by FLOPs alone."""

    @property
    def in_cache(self) -> bool:
        """Whether the data moved faster than the large copy of the roof, and the products no faster than its product."""
        return self.by_flops <= 1 < self.fraction

    @property
    def warning(self) -> str:
        """Set where the time is below the floor."""
        if self.fraction <= 1:
            return ""
        floor = f"below the roof's floor of {self.floor_seconds:.3g} s"
        if self.in_cache:
            return f"{floor}, which is that of memory: what a call touches stayed in cache"
        return f"{floor}: an error of measurement, of the roof or of the cost formula"


def roof_share(summary: CellSummary, run: RunInfo) -> RoofShare | None:
    """None where the cell has no time, its method no cost, or its dtype no roof."""
    cost = run.costs.get(summary.cell.key)
    roof = run.surroundings.roof.get(summary.cell.ceiling)
    if cost is None or roof is None or summary.median is None:
        return None
    # costs are stated for the problem's batch, and grow with it
    time = summary.median * summary.cell.problem.B / summary.B
    floor = cost.floor_seconds(roof.flops_per_second, roof.bytes_per_second)
    return RoofShare(floor * summary.median / time, floor / time, cost.executed_flops / roof.flops_per_second / time)
