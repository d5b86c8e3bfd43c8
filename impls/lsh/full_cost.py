"""What exact attention with one tensor as query and key computes and allocates.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .traffic import least_bytes


def cost_of_full(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of fused attention, whose backward has five products for the forward's two.

    A non-causal call computes the logit of a token with itself and hides it. The peak leaves out the scratch of the kernels and
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
    """Count the bytes per row of keys, reversed values or unjoined outputs, outputs, and padding."""
    width, logsumexp = max(p.D, p.M), max(4, p.dtype.bytes)
    return width * p.dtype.bytes * (3 + (p.D != p.M)) + (0 if p.causal else logsumexp)


def _backward_peak(p: Problem) -> float:
    """Count the bytes per row while the gradient passes the norm of the keys: o, dq, dk, dv and four products."""
    width = max(p.D, p.M)
    filled_up = (p.M > p.D) + 2 * (p.causal and p.M < p.D)
    return (width * (8 + filled_up) + 2) * p.dtype.bytes
