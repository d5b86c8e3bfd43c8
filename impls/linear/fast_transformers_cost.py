"""What one call of pytorch-fast-transformers 0.4 computes and allocates, operator by operator.

B batch, H heads, N tokens, D query/key width, M value width. Counts are for each of the B H N rows, in elements.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


def cost_of_package(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of any workload; peaks are those of torch's CPU allocator, for two heads or more."""
    if workload.decodes:
        return _decoding(p, workload)
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
    # the causal backward sums up the state of k vᵀ again and that of q gᵀ, and reads them three times
    products = (14.0 if p.causal else 12.0) if trains else 4.0
    elements = _causal_peak(p, trains) if p.causal else _full_peak(p, trains)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=rows * (12.0 if trains else 4.0) * p.D * p.M,
        executed_flops=rows * (products * p.D * p.M + (6.0 if trains else 2.0) * p.D),
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=float(rows * p.dtype.bytes * elements),
    )


def _causal_peak(p: Problem, trains: bool) -> float:
    """Count mapped q and k, their copies and v's and o's in [B, H, N, ·]; in the backward also four gradients of copies."""
    if not trains:
        return 4 * p.D + 3 * p.M + 1
    return max(6 * p.D + 4 * p.M, 4 * p.D + 5 * p.M) + 3


def _full_peak(p: Problem, trains: bool) -> float:
    """Count mapped q and k, and einsum's copies where the [N, H] heads of several samples are no batch of matrices."""
    D, M, state = p.D, p.M, p.D * p.M / p.N
    if not trains:
        return max((3 * D + M if p.B > 1 else 3 * D - state - 1), 2 * (D + M)) + state + 1
    if p.B > 1:
        return max(5 * D + 4 * M, 3 * D + 5 * M) + state + 3
    return max(4 * D + M, 2 * D + 4 * M) + state + 3


def _decoding(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of decoding, where a step forms k vᵀ, adds it to the state, and reads that."""
    heads, steps = p.B * p.H, 1 if workload is Workload.DECODE else p.N
    state = heads * (p.D * p.M + p.D)
    peak = heads * (p.D * p.M + 2 * p.D) + (state if workload is Workload.DECODE_TOTAL else 0)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=4.0 * steps * heads * p.D * p.M,
        executed_flops=steps * heads * (4.0 * p.D * p.M + 2.0 * p.D),
        traffic_bytes=io_bytes(p, workload) + 2.0 * steps * state * p.dtype.bytes,
        peak_bytes=float(peak * p.dtype.bytes),
    )
