"""FLOPs and bytes of chunked linear attention as computed in causal_product.py.

B batch, H heads, N tokens, L tokens of a chunk, C width of φ, M value width, W value width with its column of ones.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .causal_product import spacing
from .family import LinearFamily
from .segments import segments
from .work import Sizes, decoding_cost, exact_flops


def cost_by_chunks(problem: Problem, method: LinearFamily, chunk: int, workload: Workload) -> Cost:
    """Count FLOPs and bytes. The peak is that of a CPU; a GPU computes all heads and larger segments at once."""
    s, trains = Sizes(problem, method), workload is Workload.FORWARD_BACKWARD
    if workload.decodes:
        return decoding_cost(s, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=exact_flops(s, workload),
        executed_flops=_executed(s, chunk, trains),
        traffic_bytes=io_bytes(problem, workload),
        peak_bytes=_training_peak(s, chunk) if trains else _peak(s, chunk),
    )


def _executed(s: Sizes, chunk: int, trains: bool) -> float:
    """Count L (C + W) multiplications within a chunk and 2 C W through the state per token, and those of φ.

    The backward repeats the products of φ(q) φ(k) and of the state, and adds its own.
    """
    N, C, wide, tail = s.p.N, s.C, s.wide, s.p.N % chunk
    forward, backward = s.method.phi.flops(s.p.D)
    pairs = (N - tail) * chunk + tail * tail
    work = 2.0 * (pairs * (C + wide) + 2 * N * C * wide) + 2 * N * forward
    if trains:
        work += 2.0 * (pairs * (3 * C + 2 * wide) + N * 5 * C * wide) + 2 * N * (forward + backward)
    return s.heads * work


def _peak(s: Sizes, chunk: int) -> float:
    """Count the bytes of output, [v | 1] and a state, and of the peak of a segment."""
    rows, L = _segment(s, chunk)
    C, wide, gated = s.C, s.wide, s.scales > 0
    states = rows / L * C * wide
    worst = max(
        rows * (C + s.room.query + s.cast * s.p.D),
        rows * (s.room.key + s.cast * s.p.D),
        rows * (2 * C + gated * (L + wide)) + 2 * states,
        rows * (2 * C + (1 + gated) * L) + states + rows * (wide + gated * wide),
    )
    return s.queries * s.p.M * s.p.dtype.bytes + (rows * wide + worst) * s.element + s.group * C * wide * s.sum


def _training_peak(s: Sizes, chunk: int) -> float:
    """Count the bytes of output, denominators, gradients, states, [v | 1], dL/d[n | d], and the peak of a segment."""
    rows, L = _segment(s, chunk)
    p, C, wide, gated = s.p, s.C, s.wide, s.scales > 0
    states = rows / L * C * wide
    count = len(segments(s.shape(s.group, p.N), C, chunk))
    every = spacing(count, s.group * C * wide, s.group * p.N * p.M)
    kept = s.heads * -(-count // every) + s.group * (every + 1)
    worst = max(
        rows * (2 * C + gated * (L + wide)) + 3 * states,
        rows * (4 * C + L + gated * (L + 2 * wide)) + 2 * states,
        rows * (4 * C + (1 + gated) * L + (1 + gated) * wide) + states,
        rows * (4 * C + wide + s.back + gated * L),
    )
    stored = s.queries * (2 * p.D + 2 * p.M) * p.dtype.bytes + s.queries * s.element
    return stored + (2 * rows * wide + worst) * s.element + kept * C * wide * s.sum


def _segment(s: Sizes, chunk: int) -> tuple[int, int]:
    """Count the rows of the first segment, and the tokens of its chunks."""
    first = segments(s.shape(s.group, s.p.N), s.C, chunk)[0]
    return s.group * (first.stop - first.start), first.chunk
