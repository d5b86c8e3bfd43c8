"""Speed-ups over a named baseline: by default the fastest exact softmax kernel that ran, never the naive one by habit."""

import math

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate, by_factors
from attnbench.schema.cell import Workload, plain_name

_RECOMPUTED = "softmax.recompute"
_ANEW = "whole prefix anew"
"""How a model generates around a method that does not decode, as the record says."""


def strongest_exact(section: Section, N: int) -> CellSummary | None:
    """Return the exact softmax attention of least time per sample at a length; None where none has numbers.

    One that keeps no cache when it decodes or generates stands back behind all that do.
    """
    return next(iter(_strongest_first(section, N)), None)


def _strongest_first(section: Section, N: int) -> list[CellSummary]:
    exact = [s for s in section.ok_at(N).values() if s.cell.method in section.exact]
    return sorted(exact, key=lambda s: (_recomputes(s) or without_cache(s), s.time.value if s.time else math.inf))


def baselines(section: Section, N: int) -> list[CellSummary]:
    """Return what the cells of one length are compared with: those of the methods that the suite names, where it names any.

    Else the strongest exact one; in decoding and generating the strongest without a cache too, for a speed-up over a model
    that keeps nothing between tokens is another number than one over a cache.
    """
    if section.named:
        ok = section.ok_at(N).values()
        # a suite names the method, of which there may be compiled or packed cells alone
        return [s for s in ok if s.cell.method in section.named] or [
            s for s in ok if plain_name(s.cell.method) in section.named
        ]
    exact = _strongest_first(section, N)
    uncached = [s for s in exact if without_cache(s)]
    return [*exact[:1], *(s for s in uncached[:1] if s is not exact[0])]


def baseline(section: Section) -> str | None:
    """Return the label that the others are compared with: a method that the suite names, else the strongest exact softmax.

    Chosen once for all lengths: at the longest one at which the most methods have numbers, or else at the longest at which
    there is any such method.
    """
    lengths = (section.common_length, *reversed(section.lengths))
    found = next(filter(None, (baselines(section, N) for N in lengths if N is not None)), None)
    return found[0].cell.label if found else None


def without_cache(summary: CellSummary) -> bool:
    """Say whether each token is attended from scratch: of decoding the method's name says so, of generating the record."""
    if summary.cell.workload is Workload.GENERATE and (way := summary.fact("generation")):
        return way == _ANEW
    return (summary.cell.workload.decodes or summary.cell.workload is Workload.GENERATE) and _recomputes(summary)


def _recomputes(summary: CellSummary) -> bool:
    return plain_name(summary.cell.method) == _RECOMPUTED


def speedup(baseline: CellSummary, summary: CellSummary) -> Estimate | None:
    """Divide the baseline's time per sample by the method's: above 1 the method is faster.

    Paired by replicate number (they were interleaved); None where one of the two has no numbers.
    """
    if baseline.time is None or summary.time is None:
        return None
    ratios = [baseline.times[r] / summary.times[r] for r in summary.times if r in baseline.times]
    return by_factors(ratios) if ratios else Estimate.exact(baseline.time.value / summary.time.value)
