"""Parts of the costs of all sparse attentions: the pairs of the definition.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from itertools import repeat

from attnbench.api import Problem, Workload

from .patterns.band import Band
from .patterns.pattern import Pattern, Shape


def exact_flops(p: Problem, pattern: Pattern, workload: Workload) -> float:
    """Count two products over the visible pairs; four more in the backward; for DECODE only those of the last query."""
    seen = last_row(pattern, Shape.of(p)) if workload is Workload.DECODE else all_pairs(pattern, Shape.of(p))
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2.0 * p.B * seen * (p.D + p.M)


def all_pairs(pattern: Pattern, shape: Shape) -> int:
    """Count the (query, key) pairs of all heads together."""
    return sum(len(part.heads) * part.pairs() for part in pattern.parts(shape))


def last_row(pattern: Pattern, shape: Shape) -> int:
    """Count the keys that the last query sees, over all heads."""
    return sum(len(part.heads) * sum(map(_of_last, part.bands, repeat(shape.N - 1))) for part in pattern.parts(shape))


def _of_last(band: Band, token: int) -> int:
    """Count the keys of a band that one query sees."""
    place = band.position(token)
    if place is None:
        return 0
    first, stop = band.seen(*place)
    return stop - first
