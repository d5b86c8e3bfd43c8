"""What attention over projected keys computes, moves and allocates.

B batch, H heads, K heads of k and v, N tokens, S projected keys, D query/key width, M value width, W the wider of both.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


@dataclass(frozen=True)
class Projection:
    """S projected keys, the elements of all parameters, and how they are made."""

    slots: int
    parameters: int
    by_matrix: bool = False
    """S x N weights for keys and values each, whoever shares them; else no matrix product."""
    twice_used: bool = False
    """One matrix for keys and values: its gradient is a sum of two."""
    keeps_inputs: bool = False
    """Whether the backward reads k and v, as hidden keys have made them."""


def cost_of(p: Problem, projection: Projection, workload: Workload) -> Cost:
    """Attention is fused: its backward makes the scores again, five products for the forward's two."""
    trains = workload is Workload.FORWARD_BACKWARD
    projecting = 2.0 * p.B * p.kv_heads * p.N * projection.slots * (p.D + p.M) if projection.by_matrix else 0.0
    pairs = 2.0 * p.B * p.H * p.N * projection.slots
    read_and_written = projection.parameters * p.dtype.bytes * (3 if trains else 1)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=(3.0 if trains else 1.0) * (projecting + pairs * (p.D + p.M)),
        executed_flops=(3.0 if trains else 1.0) * projecting + (3.5 if trains else 1.0) * pairs * 2 * max(p.D, p.M),
        traffic_bytes=io_bytes(p, workload) + read_and_written,
        peak_bytes=float(_backward_peak(p, projection) if trains else _forward_peak(p, projection)),
    )


def _forward_peak(p: Problem, projection: Projection) -> float:
    """Hidden keys as zeros while they are projected; then the projected ones, the output and the logsumexp of each row."""
    few = _projected(p, projection)
    return max(_as_zeros(p) + few, few + _filled(p, projection) + _rows(p))


def _backward_peak(p: Problem, projection: Projection) -> float:
    """While softmax is differentiated; or at the end, when all gradients are there."""
    kept = _as_zeros(p) if projection.by_matrix or projection.keeps_inputs else 0.0
    few, e, rows = _projected(p, projection) + _filled(p, projection), p.dtype.bytes, p.B * p.H * p.N
    keys = p.B * p.kv_heads * e
    softmax = kept + 2 * few + _rows(p) + rows * max(p.D, p.M) * e * (2 if p.M < p.D else 1)
    gradients = rows * p.D * e + keys * p.N * (p.D + p.M) + projection.parameters * e * (2 if projection.twice_used else 1)
    hidden = keys * p.N * max(p.D, p.M) if p.padding else 0.0
    return max(softmax, rows * max(p.D, p.M) * e + gradients + keys * projection.slots * p.D + hidden)


def _projected(p: Problem, projection: Projection) -> float:
    return p.B * p.kv_heads * projection.slots * (p.D + p.M) * p.dtype.bytes


def _filled(p: Problem, projection: Projection) -> float:
    """Projected keys, or values, as wide as the other, where they are not."""
    return float(p.B * p.kv_heads * projection.slots * max(p.D, p.M) * p.dtype.bytes) if p.M != p.D else 0.0


def _rows(p: Problem) -> float:
    """The output and a logsumexp, at least float32; queries filled up to the width of values."""
    width = max(p.D, p.M)
    return p.B * p.H * p.N * ((width + (width if p.M > p.D else 0)) * p.dtype.bytes + max(4, p.dtype.bytes))


def _as_zeros(p: Problem) -> float:
    """Copies of k and v without what is hidden."""
    return float(p.B * p.kv_heads * p.N * (p.D + p.M) * p.dtype.bytes) if p.padding else 0.0
