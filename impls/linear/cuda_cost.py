"""What one call of the CUDA kernels computes and allocates.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .cuda_layout import Layout, Pass, layout


def cost_by_walks(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of one call on a GPU, with widths as the lanes pad them; not for decoding."""
    trains, heads = workload is Workload.FORWARD_BACKWARD, p.B * p.H
    plans = [layout(of, p.D, p.M, p.dtype.bytes) for of in (Pass if trains else [Pass.FORWARD])]
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=heads * p.N * (3.0 if trains else 1.0) * 4 * p.D * p.M,
        executed_flops=heads * p.N * (sum(_executed(plan, heads, p.N) for plan in plans) + (2.0 * p.M if trains else 0)),
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=_peak(p, trains, [4.0 * plan.stored(heads, p.N) for plan in plans]),
    )


def _executed(plan: Layout, heads: int, N: int) -> float:
    """Count a token's FLOPs: the state is added to and read, and added to again where segments are summed first; and φ(q)·z."""
    products = 3 if plan.stored(heads, N) else 2
    denominator = 2.0 * plan.padded_rows * plan.slices if plan.of is Pass.FORWARD else 0.0
    return products * 2.0 * plan.padded_rows * plan.padded_columns + denominator


def _peak(p: Problem, trains: bool, stored: list[float]) -> float:
    """Count the bytes of output, denominators and stored states; in the backward δ and the gradients, which come last."""
    rows, bytes_of = p.B * p.H * p.N, p.dtype.bytes
    keys = rows * p.D * bytes_of
    # hiding keys copies k, and later its gradient, when the first copy is freed
    hidden = keys if p.padding else 0.0
    kept = rows * (p.M * bytes_of + 4) + hidden
    if not trains:
        return kept + stored[0]
    gradients = rows * p.M * bytes_of + 2 * keys
    return kept + rows * 4 + gradients + max(stored)
