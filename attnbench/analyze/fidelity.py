"""What the fidelity of a cell is over its replicates, and what it costs."""

import math
import statistics

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.statistics import ENOUGH, Estimate, Interval, Spread, t_interval
from attnbench.schema.outcome import ACCURACY, COSINE, MASS_RECALL, TOP_OVERLAP
from attnbench.schema.run import RunInfo

_AT_MOST_ONE = frozenset({MASS_RECALL, TOP_OVERLAP, ACCURACY, COSINE})


def score(summary: CellSummary, metric: str) -> Estimate | None:
    """Mean over the replicates, each of which has inputs of its own; None unless the cell is ok and has the metric.

    With the interval of the plain mean, for a share or an error may be 0. What of it cannot be is cut off: below 0 (-1 of a
    cosine), and above 1 of a share.
    """
    values = list(summary.scores.get(metric, {}).values())
    if not summary.ok or not values:
        return None
    band = Interval(min(values), max(values), Spread.BAND)
    found = t_interval(values) if len(values) >= ENOUGH else band
    low, high = max(-1.0 if metric == COSINE else 0.0, found.low), min(1.0 if metric in _AT_MOST_ONE else math.inf, found.high)
    return Estimate(statistics.fmean(values), Interval(low, high, found.kind))


def share_of_dense(summary: CellSummary, run: RunInfo) -> float | None:
    """FLOPs that the method's definition needs over those of dense attention; None where its cost is not known."""
    cost = run.costs.get(summary.cell.key)
    return cost.exact_flops / cost.nominal_flops if cost and cost.nominal_flops else None
