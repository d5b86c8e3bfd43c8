"""FLOPs and bytes of attention in segments with relative positions, by formula.

B batch, H heads, N tokens, L tokens of a segment, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .eager.segments import Segments
from .limits import whole


def cost(p: Problem, workload: Workload, segment: int = 512, memory: int | None = None) -> Cost:
    """Compute the cost of one call. Raises ValueError on bad parameters."""
    whole(segment, "segment")
    segments = Segments.of(p.N, segment, segment if memory is None else whole(memory, "memory", least=0))
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=_exact_flops(p, segments, workload),
        executed_flops=_step_flops(p, segments, workload) if workload.decodes else _executed_flops(p, segments, workload),
        traffic_bytes=io_bytes(p, workload) + _cache_bytes_moved(p, segments, workload),
    )


def _seen(p: Problem, segments: Segments, workload: Workload) -> int:
    """Count the pairs of one head; for DECODE those of the last token."""
    return segments.seen(p.N - 1) if workload is Workload.DECODE else segments.pairs()


def _exact_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count content, position and values of each pair, and W_r once for each query.

    The backward adds dP, dq by content and dq by position for each pair; dk and dv for pairs within a segment; and dW_r and the
    gradient through W_r for each query.
    """
    tokens = 1 if workload is Workload.DECODE else p.N
    pair, token = 2 * p.D + p.M, p.D * p.D
    work = _seen(p, segments, workload) * pair + tokens * token
    if workload is Workload.FORWARD_BACKWARD:
        work += segments.pairs() * pair + segments.own_pairs() * (p.D + p.M) + 2 * tokens * token
    return 2.0 * p.B * p.H * work


def _step_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count the same for steps, with keys and values padded to one width."""
    more = _seen(p, segments, workload) * (2 * max(p.D, p.M) - p.D - p.M)
    return _exact_flops(p, segments, workload) + 2.0 * p.B * p.H * more


def _executed_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count all pairs of windows, one more distance, and in the backward the scores again."""
    queries = segments.count * segments.L
    content, position, own = (queries * keys for keys in (segments.width, segments.width + 1, segments.L))
    work = content * 2 * max(p.D, p.M) + position * p.D + p.N * p.D * p.D
    if workload is Workload.FORWARD_BACKWARD:
        work += content * (2 * p.D + p.M) + position * 2 * p.D + own * (p.D + p.M) + 2 * p.N * p.D * p.D
    return 2.0 * p.B * p.H * work


def _cache_bytes_moved(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count the bytes of keys and values that steps read, including the token's own."""
    if not workload.decodes:
        return 0.0
    return float(_seen(p, segments, workload) * p.B * p.kv_heads * (p.D + p.M) * p.dtype.bytes)
