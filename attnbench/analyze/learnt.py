"""What a model has learnt, over its seeds: the mean of a score, and who cannot be told from the best."""

import math
import statistics

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate, Interval, Spread, t_interval
from attnbench.schema.outcome import ACCURACY

SEEDS = 3
"""From so many on an interval is given, not only a band: a training takes minutes, and a seed more often cannot be had."""


def learnt(summary: CellSummary, metric: str) -> Estimate | None:
    """Mean over the seeds with the 95 % t interval of the mean; of fewer than three seeds, with the least and the greatest.

    None unless the cell is ok and has the metric. What of the interval lies below 0, or above 1 of a share, cannot be and is
    cut off.
    """
    values = list(summary.scores.get(metric, {}).values())
    if not summary.ok or not values:
        return None
    found = t_interval(values) if len(values) >= SEEDS else Interval(min(values), max(values), Spread.BAND)
    most = 1.0 if metric == ACCURACY else math.inf
    return Estimate(statistics.fmean(values), Interval(max(0.0, found.low), min(most, found.high), found.kind))


def best_learnt(section: Section, N: int, metric: str) -> set[str]:
    """The label of most accuracy, or of least loss, at one length, and those whose interval or band overlaps with its own."""
    found = {label: score for label, cell in section.ok_at(N).items() if (score := learnt(cell, metric)) is not None}
    pick = max if metric == ACCURACY else min
    best = pick(found.values(), key=lambda score: score.value, default=None)
    return {label for label, score in found.items() if best is not None and score.interval.overlaps(best.interval)}
