"""Bytes moved and peak of memory on a CPU, by formula, of decoding from the kept keys.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .band import pairs
from .decoding_caches import Caches, Share, caches_for
from .pattern import Pattern, Shape
from .work import exact_flops


def decoding_cost(problem: Problem, pattern: Pattern, workload: Workload) -> Cost:
    """Compute the cost of a step at context N, or of N steps from nothing; executed is what the definition needs."""
    p = problem
    caches, exact = caches_for(pattern, Shape(p.N, p.H, causal=True), p.kv_heads), exact_flops(p, pattern, workload)
    peak = step_peak(p, caches)
    if workload is Workload.DECODE_TOTAL:
        # the previous output is freed only once the next exists
        peak += state_bytes(p, caches) + p.B * p.H * p.M * p.dtype.bytes
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=exact,
        traffic_bytes=io_bytes(p, workload) + _entry(p) * sum(_entries_moved(caches, p.N, workload)),
        peak_bytes=float(peak),
    )


def state_bytes(p: Problem, caches: Caches) -> int:
    """Count the bytes of a state with room for N tokens."""
    return _entry(p) * sum(cache.rows * cache.slots for cache in caches.layouts)


def step_peak(p: Problem, caches: Caches) -> int:
    """Count the bytes of the last step: the output, if put together from shares, and the share with the largest parts."""
    output = p.B * p.H * p.M * p.dtype.bytes if len(caches.shares) > 1 else 0
    return output + max(_share_peak(p, caches, share) for share in caches.shares)


def _share_peak(p: Problem, caches: Caches, share: Share) -> int:
    """Count the bytes of each part's output and logsumexp, and of merging them or of padding widths."""
    e, wide, rows = p.dtype.bytes, max(4, p.dtype.bytes), p.B * share.count
    widest = max(p.D, p.M) * e
    parts = [(read, s.stop - s.start) for read in share.reads if (s := read.seen(p.N - 1))]
    filled = max((p.B * caches.layouts[read.cache].rows * keys * widest for read, keys in parts), default=0)
    filled = filled + (rows * widest if p.D < p.M else 0) if p.D != p.M else 0
    merging = rows * wide * (1 + (2 * p.M if e < wide else 0)) if len(parts) > 1 else 0
    return max(rows * p.M * e, len(parts) * rows * (widest + wide) + max(merging, filled))


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


def _entry(p: Problem) -> int:
    """Count the bytes of a key and its value, for all samples."""
    return p.B * (p.D + p.M) * p.dtype.bytes
