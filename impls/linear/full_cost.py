"""FLOPs and bytes of linear attention without a mask as computed in full_product.py.

B batch, H heads, K heads of k and v, N tokens, C width of φ, M value width, W value width with its column of ones.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .family import LinearFamily
from .work import Sizes, exact_flops


def cost_by_state(problem: Problem, method: LinearFamily, workload: Workload) -> Cost:
    """Count FLOPs and bytes. The peak is that of a CPU; a GPU computes all heads and larger segments at once."""
    s, trains = Sizes(problem, method), workload is Workload.FORWARD_BACKWARD
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=exact_flops(s, workload),
        executed_flops=_executed(s, trains),
        traffic_bytes=io_bytes(problem, workload),
        peak_bytes=_kept(s, trains) + max(_at_queries(s, trains), _at_keys(s, trains)),
    )


def _executed(s: Sizes, trains: bool) -> float:
    """Count sums of M columns and reads of W; in the backward dS and dφ(q) of M + 1, dφ(k) and dv of M, and φ twice."""
    C, M = s.C, s.p.M
    forward, backward = s.method.phi.flops(s.p.D)
    work = 2.0 * C * (s.keys * M + s.queries * s.wide) + (s.keys + s.queries) * forward
    if trains:
        work += 4.0 * C * (s.queries * (M + 1) + s.keys * M) + (s.keys + s.queries) * (forward + backward)
    return work


def _kept(s: Sizes, trains: bool) -> float:
    """Count the bytes of the output; in the backward also the denominators, the states and three gradients."""
    p, output = s.p, s.queries * s.p.M * s.p.dtype.bytes
    if not trains:
        return float(output)
    gradients = (s.queries * p.D + s.keys * (p.D + p.M)) * p.dtype.bytes
    return float(output + s.queries * s.element + s.heads * s.C * s.wide * s.sum + gradients)


def _at_keys(s: Sizes, trains: bool) -> float:
    """Count the bytes of scratch for a segment of keys, beside two states or, in the backward, dS."""
    rows, C, M, cast = s.rows(s.group, s.p.N), s.C, s.p.M, s.cast
    state = s.group * C * s.sum
    mapping = s.room.key + cast * s.p.D
    if not trains:
        widened = C * s.sum / s.element if s.sum != s.element else 0  # torch sums bfloat16 by converting all of it
        return rows * max(mapping, C + cast * M, C + widened) * s.element + state * (s.wide + M)
    back = max(mapping, C + M, 2 * C + cast * M, 2 * C + s.back)
    return rows * back * s.element + state * (2 * M + 1)


def _at_queries(s: Sizes, trains: bool) -> float:
    """Count the bytes of scratch for a segment of queries, beside one state and, in the backward, dS."""
    group = s.p.H // s.p.kv_heads
    rows, C, M, cast = s.rows(s.group, s.p.N * group), s.C, s.p.M, s.cast
    state, mapping = s.group * C * s.sum, s.room.query + cast * s.p.D
    if not trains:
        return rows * max(mapping, C + s.wide) * s.element + state * s.wide
    back = M + 1 + max(M, mapping, 2 * C + s.back)
    return rows * back * s.element + state * 2 * (M + 1)
