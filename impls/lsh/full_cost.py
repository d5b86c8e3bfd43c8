"""What exact attention with one tensor as query and key computes and allocates.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .traffic import least_bytes


def cost_of_full(p: Problem, workload: Workload) -> Cost:
    """Fused both ways: the backward makes the scores again, five products for the forward's two.

    Without a mask the logit of a token with itself is computed and hidden. The peak leaves out the scratch of the kernels and
    the packed copies of k and v that some CPUs make of float16 and bfloat16.
    """
    trains, rows = workload is Workload.FORWARD_BACKWARD, float(p.B * p.H * p.N)
    others = (p.N - 1) / 2 if p.causal else p.N - 1
    computed = others if p.causal else p.N
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=(3.0 if trains else 1.0) * rows * others * 2.0 * (p.D + p.M),
        executed_flops=(3.5 if trains else 1.0) * rows * computed * 4.0 * max(p.D, p.M),
        traffic_bytes=least_bytes(p, workload),
        peak_bytes=rows * (_backward_peak(p) if trains else _forward_peak(p)),
    )


def _forward_peak(p: Problem) -> float:
    """For each row: keys, values in reverse or the outputs before they are joined, outputs; and what was filled up."""
    width, logsumexp = max(p.D, p.M), max(4, p.dtype.bytes)
    return width * p.dtype.bytes * (3 + (p.D != p.M)) + (0 if p.causal else logsumexp)


def _backward_peak(p: Problem) -> float:
    """For each row, while the gradient goes through the norm of the keys: o, dq, dk, dv and four products in the making."""
    width = max(p.D, p.M)
    filled_up = (p.M > p.D) + 2 * (p.causal and p.M < p.D)
    return (width * (8 + filled_up) + 2) * p.dtype.bytes
