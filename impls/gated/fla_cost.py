"""What one call of flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width; G = 1 or D decays of a token. Counts are for
each of the B H N rows.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .cost import Extra, exact_flops, traffic_bytes

L = 64


def cost_of_kernels(p: Problem, extra: Extra, workload: Workload) -> Cost:
    """Compute the kernels' cost: whole L × L tiles within a chunk, and states between chunks, which the backward repeats."""
    trains = workload is Workload.FORWARD_BACKWARD
    return _cost(p, extra, workload, (_training_bytes if trains else _bytes)(p, extra))


def cost_of_naive(p: Problem, extra: Extra, workload: Workload) -> Cost:
    """Compute the cost of the same products in plain torch, of which autograd repeats none."""
    trains = workload is Workload.FORWARD_BACKWARD
    return _cost(p, extra, workload, (_naive_training_bytes if trains else _naive_bytes)(p, extra), again=False)


def _cost(p: Problem, extra: Extra, workload: Workload, row_bytes: float, *, again: bool = True) -> Cost:
    rows, products = p.B * p.H * p.N, 2.0 * (L * (p.D + p.M) + 2 * p.D * p.M)
    if workload is Workload.FORWARD_BACKWARD:
        products += 2 * products + (2.0 * (L * p.D + p.D * p.M) if again else 0)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload),
        executed_flops=max(rows * products, exact_flops(p, workload)),
        traffic_bytes=traffic_bytes(p, extra.gates, workload),
        peak_bytes=rows * row_bytes,
    )


def _gate_bytes(extra: Extra) -> float:
    """Count the bytes of sums of log decays, in float32."""
    return 4.0 * extra.G if extra.by_token else 0.0


def _scores_bytes(extra: Extra) -> float:
    """Count the bytes of a chunk's scores, which are written to memory, in float32, only where decays differ by row."""
    return 4.0 * L if extra.G > 1 else 0.0


def _bytes(p: Problem, extra: Extra) -> float:
    """Count the bytes of output, sums of log decays, scores, and a state for each chunk in the inputs' dtype."""
    return extra.made + p.dtype.bytes * (p.M + p.D * p.M / L) + _gate_bytes(extra) + _scores_bytes(extra)


def _training_bytes(p: Problem, extra: Extra) -> float:
    """Count the bytes in training: also gradients, and two float32 states.

    Where decays differ by row, the gradients of q and k are held twice more in float32.
    """
    wide = 4.0 if extra.G > 1 else 0.0
    gradients = p.dtype.bytes * (2 * p.D + p.M) + wide * 4 * p.D
    states = 8.0 * p.D * p.M / L
    return extra.made + p.dtype.bytes * p.M + gradients + states + 3 * _gate_bytes(extra) + 2 * _scores_bytes(extra)


def _naive_bytes(p: Problem, extra: Extra) -> float:
    """Count the bytes of scaled q, decays of all pairs in a chunk, and the larger of these decays and the output.

    The output comes with what one chunk holds.
    """
    chunk = 2 * (L + p.M + p.D * p.M / L) * min(1.0, L / p.N)
    rounded = (p.dtype.bytes < 4) * (p.D + p.M)
    return extra.made + 4.0 * (rounded + p.D + L + max(L, p.M + chunk))


def _naive_training_bytes(p: Problem, extra: Extra) -> float:
    """Count the bytes in training, fitted to torch's profiler for widths from 32 to 128.

    Autograd keeps each chunk's tensors, and fills whole gradients.
    """
    rounded = p.dtype.bytes < 4
    # products copy samples and heads that are not adjacent in memory
    apart = p.B > 1 and p.H > 1 and not rounded
    gates = 3 * L if extra.by_token else 0
    return extra.made + 4.0 * (7 * p.D + 5 * p.M + rounded * (p.D + p.M / 2) + apart * (2 * p.M + 2 * L / 3) + gates)
