"""FLOPs and bytes, by formula, of decoding from the kept keys.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..patterns.band import pairs
from ..patterns.pattern import Pattern, Shape
from ..work import exact_flops
from .caches import Caches, caches_for


def decoding_cost(problem: Problem, pattern: Pattern, workload: Workload) -> Cost:
    """Compute the cost of a step at context N, or of N steps from nothing; a CPU pads D or M to the wider."""
    p = problem
    caches, exact = caches_for(pattern, Shape(p.N, p.H, causal=True), p.kv_heads), exact_flops(p, pattern, workload)
    # a key and its value, for all samples
    entry = p.B * (p.D + p.M) * p.dtype.bytes
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=exact * 2 * max(p.D, p.M) / (p.D + p.M),
        traffic_bytes=io_bytes(p, workload) + entry * sum(_entries_moved(caches, p.N, workload)),
    )


def _entries_moved(caches: Caches, N: int, workload: Workload) -> tuple[int, int]:
    """Count the keys, each with its value, that are read from the caches and written to them."""
    reads = [(caches.layouts[read.cache].rows, read) for share in caches.shares for read in share.reads]
    writers = [(_count(writer.rows), writer.slots) for cache in caches.layouts for writer in cache.writers]
    if workload is Workload.DECODE:
        read = sum(rows * (s.stop - s.start) for rows, one in reads if (s := one.seen(N - 1)))
        return read, sum(rows for rows, slots in writers if slots.of(N - 1) is not None)
    tokens = torch.arange(N)
    written = sum(rows * int((slots.of_all(tokens) >= 0).sum()) for rows, slots in writers)
    return sum(rows * pairs(one.band) for rows, one in reads), written


def _count(rows: slice) -> int:
    return len(range(rows.start, rows.stop, rows.step))
