"""FLOPs and bytes of linear attention token by token as computed in recurrent_product.py.

B batch, H heads, N tokens, C width of φ, M value width, W value width with its column of ones.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .family import LinearFamily
from .work import Sizes, decoding_cost, exact_flops


def cost_by_tokens(problem: Problem, method: LinearFamily, workload: Workload) -> Cost:
    """Count FLOPs and bytes. The peak is that of a CPU; a GPU computes larger segments at once."""
    s, trains = Sizes(problem, method), workload is Workload.FORWARD_BACKWARD
    if workload.decodes:
        return decoding_cost(s, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=exact_flops(s, workload),
        executed_flops=_executed(s, trains),
        traffic_bytes=io_bytes(problem, workload),
        peak_bytes=_training_peak(s) if trains else _peak(s),
    )


def _executed(s: Sizes, trains: bool) -> float:
    """Count two products of C × W per token; the backward adds the state again, dφ(q), the sums over queries, dφ(k) and dv."""
    forward, backward = s.method.phi.flops(s.p.D)
    work = 4.0 * s.C * s.wide + 2 * forward
    if trains:
        work += 2.0 * s.C * (4 * s.wide + s.p.M) + 2 * backward + 4 * forward
    return s.queries * work


def _peak(s: Sizes) -> float:
    """Count the bytes of output, a state, and a segment's [v | 1], φ(k), and φ(q) being computed, or twice its sums."""
    p, C, wide = s.p, s.C, s.wide
    worst = max(s.room.key, C + s.scales + s.room.query, 2 * C + s.scales + 2 * wide)
    segment = s.rows(s.heads, p.N, times=4) * (wide + worst)
    return s.queries * p.M * p.dtype.bytes + (segment + s.heads * C * wide) * s.apart


def _training_peak(s: Sizes) -> float:
    """Count the bytes of output, denominators, gradients, a state, and a segment's tensors, with sums in float64."""
    p, C, e = s.p, s.C, s.element
    kept = s.queries * (C if s.scales > 1 else 0)
    at_keys = (24 + e) * C
    at_the_end = (16 + (3 * e if e < 8 else e)) * C + e * s.back
    segment = s.rows(s.heads, p.N, times=4) * (8 * (2 * s.wide + s.scales) + max(at_keys, at_the_end))
    stored = s.queries * (2 * (p.D + p.M) * p.dtype.bytes + s.apart)
    return stored + segment + (kept + s.heads * C * s.wide) * 8
