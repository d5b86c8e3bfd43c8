"""FLOPs and bytes of nystrom-attention 0.0.14, operator by operator.

B batch, H heads, N tokens, S landmarks, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .options import Options


def cost_of_package(p: Problem, options: Options, workload: Workload) -> Cost:
    """Compute the cost of one call, which holds all scores.

    The queries' long softmax meets the inverse before the values: 2 N S² more than needed.
    """
    trains, heads, S = workload is Workload.FORWARD_BACKWARD, p.B * p.H, options.segments(p.N)
    passes = 3.0 if trains else 1.0
    small = 2.0 * S * S * (p.D + p.M) + options.iterations * 8.0 * S**3
    exact = heads * (4.0 * p.N * S * (p.D + p.M) + small)
    executed = heads * (4.0 * p.N * S * (p.D + p.M) + 2.0 * p.N * S * S + small - 2.0 * S * S * p.M)
    weights = p.H * options.convolution_kernel * p.dtype.bytes
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=passes * exact,
        executed_flops=passes * executed,
        traffic_bytes=io_bytes(p, workload) + passes * weights,
        peak_bytes=float(heads * p.dtype.bytes * (_backward_peak(p, options) if trains else _forward_peak(p, options))),
    )


def _forward_peak(p: Problem, options: Options) -> float:
    """Count the numbers for each head: scaled q, long scores, softmaxes, their product with the inverse, the output."""
    S = options.segments(p.N)
    moment = max(p.N * (p.D + p.M + 5.0 * S), p.N * (p.D + 4.0 * S) + _convolution(p, options, rows=2))
    return moment + S * (2 * p.D + p.M) + 3 * S * S


def _backward_peak(p: Problem, options: Options) -> float:
    """Count the numbers for each head at the end of the forward, or in the convolution's backward."""
    S, copies = options.segments(p.N), (2 * p.D + p.M if p.B > 1 else 0)
    kept = S * (2 * p.D + p.M) + S * S * (4.0 + 5.0 * options.iterations)
    forward = p.N * (p.D + 2 * p.M + copies + 5.0 * S)
    convolved = p.N * (p.D + copies + 3.0 * S) + _convolution(p, options, rows=6)
    return kept + max(forward, convolved)


def _convolution(p: Problem, options: Options, rows: int) -> float:
    """Count the numbers in copies of v, and in two for torch's kernel for CPUs, which pads heads to 16."""
    return p.N * p.M * (rows + 2.0 * 16 * -(-p.H // 16) / p.H) if options.convolution_kernel else 0.0
