"""FLOPs and bytes of attention with a dense mask, by formula.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from dataclasses import replace

from attnbench.api import Problem, Workload

from .band import Band, Part, pairs
from .pattern import Pattern, Shape
from .work import all_pairs


def executed_flops(p: Problem, workload: Workload) -> float:
    """Count two products over the square; the backward adds five, or four where scores were kept, as for M ≠ D on a CPU."""
    backward = 5 if p.M == p.D else 4
    products = 2 + (backward if workload is Workload.FORWARD_BACKWARD else 0)
    return products * float(p.B * p.H * p.N * p.N) * (p.D + p.M)


def needed_share(p: Problem, pattern: Pattern) -> float:
    """Compute the share of the pattern's pairs whose keys are no padding."""
    parts = pattern.parts(Shape.of(p))
    seen = sum(_pairs_within(part, head, n) for n in p.lengths for part in parts for head in range(len(part.heads)))
    return seen / (p.B * all_pairs(pattern, Shape.of(p)))


def _pairs_within(part: Part, head: int, n: int) -> int:
    """Count the pairs of one head whose keys are among the first n tokens."""
    return sum(pairs(_cut(band, part, head, n)) for band in part.bands)


def _cut(band: Band, part: Part, head: int, n: int) -> Band:
    """Restrict a band to keys among the first n tokens."""
    stop = n
    if band.summary:
        assert part.summary is not None
        blocks, rest = divmod(n, part.summary.block)
        stop = part.summary.cells * blocks + min(part.summary.cells, max(0, rest - part.summary.starts[head]))
    return replace(band, keys=(min(band.keys[0], stop), min(band.keys[1], stop)))


def peak_bytes(p: Problem, heads: int, pattern: Pattern, workload: Workload) -> float:
    """Count the bytes beyond the kept mask: output, logsumexp, the mask as floats, and what clearing adds.

    The kept mask has `heads` N² bytes.
    """
    trains, output = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N * p.M * p.dtype.bytes
    # kept masks are passed as they are; with padding, one for each sample is built in the call
    masks = (p.B if p.padding else 1) * heads * p.N * p.N
    body = _kernel(p, masks, trains=trains) if p.M == p.D else _materialised(p, masks, trains=trains)
    if not _clears(p, pattern):
        return float(body)
    if trains:
        return float(body + 2 * output)
    return float((masks if p.padding else 0) + max(body, 2 * output))


def _kernel(p: Problem, masks: int, *, trains: bool) -> float:
    """Count the bytes of output, logsumexp and mask; in the backward also three gradients."""
    e, rows = p.dtype.bytes, p.B * p.H * p.N
    gradients = e * p.B * p.N * (p.H * p.D + p.kv_heads * (p.D + p.M)) if trains else 0
    return rows * (p.M * e + max(4, e)) + masks * e + gradients


def _materialised(p: Problem, masks: int, *, trains: bool) -> float:
    """Count the bytes of scores, probabilities and one byte each, in float32 at least; in the backward a third square."""
    wide, square, rows = max(4, p.dtype.bytes), p.B * p.H * p.N * p.N, p.B * p.H * p.N
    if trains:
        return wide * (3 * square + 2 * rows * (p.D + p.M))
    narrow = p.dtype.bytes < wide
    copies = rows * (p.D + p.M) * wide if narrow or p.kv_heads != p.H else 0
    return 2 * square * wide + square + rows * p.D * wide + copies + masks * (wide + (p.dtype.bytes if narrow else 0))


def _clears(p: Problem, pattern: Pattern) -> bool:
    """Say whether some queries may see nothing: with padding, and by the second fixed pattern alone."""
    # without padding these are at the start, before the first summary
    return bool(p.padding) or any(_sees_nothing(part, 0) for part in pattern.parts(Shape.of(p)))


def _sees_nothing(part: Part, token: int) -> bool:
    places = ((band, band.position(token)) for band in part.bands)
    spans = (band.seen(*place) for band, place in places if place is not None)
    return all(stop <= first for first, stop in spans)
