"""FLOPs and bytes of attention to the largest scores, by formula.

B batch, H heads, K heads of k and v, N tokens, k keys kept, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..patterns.pattern import whole
from .selection import blocks


def cost(p: Problem, workload: Workload, k: int = 8) -> Cost:
    """Compute the cost of one call. Raises ValueError on a bad k."""
    whole(k, "k")
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=_exact_flops(p, workload, k),
        executed_flops=_executed_flops(p, workload, k),
        traffic_bytes=io_bytes(p, workload) + _cache_bytes_moved(p, workload, k),
    )


def _exact_flops(p: Problem, workload: Workload, k: int) -> float:
    """Count all visible scores, and the values of kept keys; in the backward four products of kept keys."""
    kept = 2.0 * p.B * p.H * _kept(p, workload, k)
    scores = 2.0 * p.B * p.H * _seen(p, workload) * p.D
    return scores + kept * (p.M + (2 * (p.D + p.M) if workload is Workload.FORWARD_BACKWARD else 0))


def _executed_flops(p: Problem, workload: Workload, k: int) -> float:
    """Count the scores of whole blocks of queries, and outside of decoding two products of listed keys, four in the backward.

    Lists are k long, or N: the key of an absent place is multiplied too, with a weight of 0.
    """
    if workload.decodes:
        return _exact_flops(p, workload, k)
    pairs = sum(rows * stop for rows, stop in blocks(p.B * p.kv_heads, p.H // p.kv_heads, p.N, causal=p.causal))
    passes = 3 if workload is Workload.FORWARD_BACKWARD else 1
    return 2.0 * (p.H // p.kv_heads * pairs * p.D + passes * p.B * p.H * p.N * min(k, p.N) * (p.D + p.M))


def _seen(p: Problem, workload: Workload) -> float:
    """Count the keys that the queries of one head see; a step sees N."""
    if workload is Workload.DECODE:
        return p.N
    return p.N * (p.N + 1) / 2 if p.causal else p.N * p.N


def _kept(p: Problem, workload: Workload, k: int) -> float:
    """Count the kept keys of one head: all keys of a query that sees fewer than k."""
    k = min(k, p.N)
    if workload is Workload.DECODE:
        return k
    return p.N * k - (k * (k - 1) / 2 if p.causal else 0)


def _cache_bytes_moved(p: Problem, workload: Workload, k: int) -> float:
    """Count the bytes that steps read, all keys and the kept values, and write, the token's own.

    Heads of q that share one of k may keep the same values, so that as many are the least that has to be read.
    """
    if not workload.decodes:
        return 0.0
    steps = 1 if workload is Workload.DECODE else p.N
    moved = _seen(p, workload) * p.D + _kept(p, workload, k) * p.M + steps * (p.D + p.M)
    return p.B * p.kv_heads * moved * p.dtype.bytes
