"""Speed-ups over a named baseline: by default the fastest exact softmax kernel that ran, never the naive one by habit."""

import math
from collections.abc import Iterable, Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate, by_factors
from attnbench.schema.cell import Workload

_EXACT = "softmax."
_RECOMPUTED = "softmax.recompute"


def strongest_exact(cells: Iterable[CellSummary]) -> CellSummary | None:
    """The exact softmax attention of least time per sample of these cells of one length; None where none has numbers."""
    exact = [s for s in cells if s.ok and s.cell.method.startswith(_EXACT)]
    return min(exact, key=lambda s: s.time.value if s.time else math.inf, default=None)


def baselines(cells: Iterable[CellSummary], named: Sequence[str] = ()) -> list[CellSummary]:
    """Return what the cells of one length are compared with: those of the named methods, where there are any.

    Else the strongest exact one; in decoding and generating the one without a cache too, for a speed-up over a model that
    keeps nothing between tokens is another number than one over a cache.
    """
    ok = [s for s in cells if s.ok]
    if named:
        return [s for s in ok if s.cell.method in named]
    strongest = strongest_exact(s for s in ok if s.cell.method != _RECOMPUTED) or strongest_exact(ok)
    uncached = [s for s in ok if without_cache(s) and s is not strongest]
    return [s for s in (strongest, *uncached) if s is not None]


def baseline(section: Section, named: Sequence[str] = ()) -> str | None:
    """Return the label that the others are compared with: a method that the suite names, else the strongest exact softmax.

    Chosen once for all lengths: at the longest one at which the most methods have numbers, or else at the longest at which
    there is any such method.
    """
    for N in (section.common_length, *reversed(section.lengths)):
        found = baselines(section.ok_at(N).values(), named) if N is not None else []
        if found:
            return found[0].cell.label
    return None


def without_cache(summary: CellSummary) -> bool:
    """Say whether each token is attended from scratch."""
    workload = summary.cell.workload
    return (workload.decodes or workload is Workload.GENERATE) and summary.cell.method == _RECOMPUTED


def speedup(baseline: CellSummary, summary: CellSummary) -> Estimate | None:
    """Baseline's time per sample over the method's: above 1 the method is faster.

    Paired by replicate number (they were interleaved); None where one of the two has no numbers.
    """
    if baseline.time is None or summary.time is None:
        return None
    ratios = [baseline.times[r] / summary.times[r] for r in summary.times if r in baseline.times]
    return by_factors(ratios) if ratios else Estimate.exact(baseline.time.value / summary.time.value)
