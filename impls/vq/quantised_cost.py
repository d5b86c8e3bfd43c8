"""The cost of dense softmax over quantised keys: assigning codes, then exact attention.

B batch, H heads, N tokens, D query/key width, M value width, S codes, W = max(D, M), to which the kernel pads.
"""

from attnbench.api import Cost, Problem, Workload, dense_flops, io_bytes, nominal_flops

from .codebook import DISTANCES
from .options import Quantisation


def cost_of_quantised(problem: Problem, o: Quantisation, workload: Workload) -> Cost:
    """Count the FLOPs of the cheapest backend and bytes; the peak is that of a CPU's fused kernel, without its scratch."""
    p, trains = problem, workload is Workload.FORWARD_BACKWARD
    steps = 1 if workload is Workload.DECODE else p.N
    assigning = 2.0 * p.B * p.H * steps * o.codes * p.D
    # a fused backward computes the scores again: five products for the forward's two
    attending = dense_flops(p) * 3.5 if trains else nominal_flops(p, workload)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=nominal_flops(p, workload) + assigning,
        executed_flops=attending + assigning,
        traffic_bytes=io_bytes(p, workload)
        + p.H * o.codes * p.D * 4.0 * (steps if workload.decodes else 1)
        + _cache(p, workload),
        peak_bytes=_step(p, o, workload) if workload.decodes else _peak(p, o, trains=trains),
    )


def _cache(p: Problem, workload: Workload) -> float:
    """Count the bytes of k̂ and v that steps read, each all tokens up to its own, which it writes."""
    tokens = {Workload.DECODE: p.N, Workload.DECODE_TOTAL: p.N * (p.N + 1) / 2}.get(workload, 0)
    return tokens * _tokens(p, p.B * p.H)


def _tokens(p: Problem, count: int) -> float:
    return float(count * (p.D + p.M) * p.dtype.bytes)


def _peak(p: Problem, o: Quantisation, *, trains: bool) -> float:
    """Count the bytes of keys, codes and distances, or of q, k̂, output and logsumexp with padding, and gradients."""
    e, w, rows = p.dtype.bytes, max(4, p.dtype.bytes), p.B * p.H
    tokens, width = rows * p.N, max(p.D, p.M)
    book = p.H * o.codes * p.D * (4 + (e if e != 4 else 0))
    some = min(tokens, max(rows, DISTANCES // o.codes // rows * rows))
    distances = some * (o.codes * w + 8 + (p.D * 4 if e < 4 else 0))
    choosing = tokens * (p.D * e + 8) + book + max(distances, tokens * (p.D * e + 8))
    filled = (2 * width * (width > p.D) + width * (width > p.M)) * e
    held = tokens * ((2 * p.D + width) * e + filled + w)
    if not trains:
        return max(choosing, held + tokens * 8 + book)
    norms = 2 * tokens * w if o.normalise else 0
    # three gradients, and dL/do, which the kernel copies, and before that pads
    return max(choosing + norms, held + norms + tokens * (4 + (width > p.M)) * width * e)


def _step(p: Problem, o: Quantisation, workload: Workload) -> float:
    """Count the bytes of choosing a code or of one query's attention, and of the cache if decoding starts from nothing."""
    e, w, rows = p.dtype.bytes, max(4, p.dtype.bytes), p.B * p.H
    book, width = p.H * o.codes * p.D, max(p.D, p.M)
    own = book * (4 + (e if e != 4 else 0))
    filled = rows * p.N * width * e if p.D != p.M else 0
    cache = _tokens(p, rows * p.N) if workload is Workload.DECODE_TOTAL else 0
    choosing = own + book * w * (1 + (e > 4)) + rows * o.codes * w
    return max(choosing, rows * (2 * p.D + width) * e + filled) + cache
