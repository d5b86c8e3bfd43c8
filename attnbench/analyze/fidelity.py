"""What the fidelity of a cell is over its replicates, and what it costs."""

import math
import statistics
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.statistics import ENOUGH, Interval, Spread, t_interval
from attnbench.schema.outcome import MASS_RECALL
from attnbench.schema.run import RunInfo


@dataclass(frozen=True)
class Score:
    """Mean over the replicates, each of which has inputs of its own."""

    value: float
    interval: Interval


def score(summary: CellSummary, metric: str) -> Score | None:
    """None unless the cell is ok and has the metric; with the interval of the plain mean, for a share or an error may be 0.

    What of the interval lies below 0, or above 1 of a share, cannot be and is cut off.
    """
    values = list(summary.scores.get(metric, {}).values())
    if not summary.ok or not values:
        return None
    band = Interval(min(values), max(values), Spread.BAND)
    found = t_interval(values) if len(values) >= ENOUGH else band
    low, high = max(0.0, found.low), min(1.0 if metric == MASS_RECALL else math.inf, found.high)
    return Score(statistics.fmean(values), Interval(low, high, found.kind))


def share_of_dense(summary: CellSummary, run: RunInfo) -> float | None:
    """FLOPs that the method's definition needs over those of dense attention; None where its cost is not known."""
    cost = run.costs.get(summary.cell.key)
    return cost.exact_flops / cost.nominal_flops if cost and cost.nominal_flops else None
