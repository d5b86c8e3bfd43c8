"""FLOPs and bytes of attention to tokens and compressed entries, by formula.

B batch, H heads, I index heads of width E, N tokens, W tokens of the window, m tokens of a block, k entries kept, D width.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from ..partial.index import index_heads, scored
from .eager.entries import Reach, tiles


def cost(p: Problem, workload: Workload, reach: Reach, k: int | None = None) -> Cost:
    """Count pairs of queries with tokens and entries; with k, all index scores and at most k entries a query."""
    (heads, width), trains, size = index_heads(p), workload is Workload.FORWARD_BACKWARD, p.dtype.bytes
    k = None if k is None else min(k, p.N // reach.block)
    at = range(p.N - 1, p.N) if workload is Workload.DECODE else range(p.N)
    ended = [(t + 1) // reach.block for t in at]
    tokens, seen = float(sum(min(t + 1, reach.window) for t in at)), float(sum(ended))
    kept = seen if k is None else float(sum(min(k, each) for each in ended))
    per_score = 0.0 if k is None else 2.0 * p.B * heads * (width + 1)
    exact = 4.0 * p.B * p.H * p.D * (tokens + kept) * (3 if trains else 1) + per_score * seen
    executed = exact
    if not workload.decodes:
        cut = tiles(p.B, p.H, p.N, reach, k)
        pairs = sum((tile.stop - tile.start) * (tile.stop - tile.first + (tile.entries if k is None else k)) for tile in cut)
        # the backward computes scores and their slopes, dq, and both shares of what is a key and a value
        executed = 2.0 * p.B * p.H * p.D * pairs * (7 if trains else 2)
        executed += per_score * scored(p.N, heads, reach.block)
    inputs, scorer = p.D * (p.H + (3 if k is None else 5)), (0 if k is None else heads * (width + 1) + 4 * width)
    # the backward reads these inputs and dL/do, but nothing of the scorer, and writes a gradient for each
    own = (3 if trains else 1) * inputs + (2 if trains else 1) * p.H * p.D + scorer
    moved = p.B * size * (tokens + kept) * p.D + (0.0 if k is None else p.B * size * seen * width)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=executed,
        traffic_bytes=float(len(at)) * size * p.B * own + (moved if workload.decodes else 0.0),
    )
