"""FLOPs and bytes of gated linear attention by chunks, as computed in recurrence/linear.py.

B batch, H heads, K heads of k and v, N tokens, L tokens of a chunk, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


def cost_by_chunks(p: Problem, chunk: int, gates: int, workload: Workload) -> Cost:
    """Compute the cost of q, k, v and `gates` further numbers for each token and head of k and v."""
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload),
        executed_flops=exact_flops(p, workload) if workload.decodes else _executed(p, chunk, workload),
        traffic_bytes=traffic_bytes(p, gates, workload),
    )


def exact_flops(p: Problem, workload: Workload) -> float:
    """Count each token's k vᵀ, K of them, and Sᵀ q, H of them; the backward has two products for each."""
    tokens = 1 if workload is Workload.DECODE else p.N
    products = p.B * (p.H + p.kv_heads) * tokens
    return products * p.D * p.M * (6.0 if workload is Workload.FORWARD_BACKWARD else 2.0)


def traffic_bytes(p: Problem, gates: int, workload: Workload) -> float:
    """Count the bytes of q, k, v, o and gates, in training also of gradients, and in decoding of the state for each step."""
    tokens, trains = 1 if workload is Workload.DECODE else p.N, workload is Workload.FORWARD_BACKWARD
    moved = io_bytes(p, workload) + p.B * p.kv_heads * tokens * gates * p.dtype.bytes * (3 if trains else 1)
    state = float(p.B * p.kv_heads * p.D * p.M * max(4, p.dtype.bytes))
    return moved + (2 * tokens * state if workload.decodes else 0)


def _executed(p: Problem, chunk: int, workload: Workload) -> float:
    """Count L (D + M) multiplications within a chunk for each token and head of q, and those through the state.

    These are D M for each head of q, which reads it, and each of k and v, which writes it. The backward repeats the writes, and
    adds products of its own.
    """
    N, tail = p.N, p.N % chunk
    pairs = p.H * ((N - tail) * chunk + tail * tail)
    work = pairs * (p.D + p.M) + N * float(p.H + p.kv_heads) * p.D * p.M
    if workload is Workload.FORWARD_BACKWARD:
        work += pairs * (3 * p.D + 2 * p.M) + N * float(2 * p.H + 3 * p.kv_heads) * p.D * p.M
    return 2.0 * p.B * work
