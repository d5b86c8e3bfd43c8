"""FLOPs and bytes of our Reformer attention as computed in eager/rows.py.

R rounds, N tokens, m slots of a chunk, C chunks of a row, D query/key width, M value width. A row is one
head of one sample.
"""

import math

from attnbench.api import Cost, Problem, Workload, nominal_flops

from ..family import least_bytes
from ..temperature import scale_of
from .options import ReformerOptions
from .ring import Ring
from .rows import ROWS


def cost_of_reformer(p: Problem, options: ReformerOptions, workload: Workload) -> Cost:
    """Count FLOPs and bytes. Raises ValueError on another temperature.

    Exact FLOPs count all pairs in windows; which of them a causal call hides, and which are of other buckets, depends on the
    data. Chunks without a query, which lie between rows that are walked together, are executed too.
    """
    scale_of(options.temperature, p)
    ring, rows = Ring(p.N, options.rounds, options.bucket_size, options.look_forward), p.B * p.H
    trains = workload is Workload.FORWARD_BACKWARD
    # half as many projections as each factor has buckets; hashing has no backward
    hashing = float(rows * p.N * p.D * options.rounds * sum(options.factors(p.N)))
    together = min(rows, max(1, ROWS // (ring.C * ring.m)))
    tiles = rows * ring.C - math.ceil(rows / together) * (ring.near - 1)
    # scores and values; in the backward the scores again and four more
    products = (p.D + p.M) + (3 * p.D + 2 * p.M if trains else 0)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=hashing + (3.0 if trains else 1.0) * 2.0 * rows * options.rounds * _pairs(ring) * (p.D + p.M),
        executed_flops=hashing + 2.0 * tiles * ring.m * ring.near * ring.m * products,
        traffic_bytes=least_bytes(p, workload),
    )


def _pairs(ring: Ring) -> int:
    """Count the (query, key) pairs in the windows of one round, whose last chunk is shorter."""
    m, last = ring.m, ring.m - ring.empty
    own = (ring.chunks - 1) * m * m + last * last
    beside = last * last if ring.chunks == 1 else (ring.chunks - 2) * m * m + 2 * m * last
    return own + (ring.near - 1) * beside
