"""FLOPs and bytes of attention over projected keys.

B batch, H heads, K heads of k and v, N tokens, S projected keys, D query/key width, M value width, W the wider of both.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


@dataclass(frozen=True)
class Projection:
    """A projection as costs see it: S projected keys (`slots`), and the number of elements of all parameters."""

    slots: int
    parameters: int
    by_matrix: bool = False
    """Whether keys and values are each multiplied with S × N weights; otherwise there is no matrix product."""
    twice_used: bool = False
    """Whether one matrix serves keys and values, so that its gradient is a sum of two."""
    keeps_inputs: bool = False
    """Whether the backward reads k and v, with hidden keys as zeros."""


def cost_of(p: Problem, projection: Projection, workload: Workload) -> Cost:
    """Compute the cost of one call; attention is fused, and its backward has five products for the forward's two."""
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
    """Count the bytes of keys with zeros while they are projected, or of projected keys, output and logsumexp."""
    few = _projected(p, projection)
    return max(_as_zeros(p) + few, few + _filled(p, projection) + _rows(p))


def _backward_peak(p: Problem, projection: Projection) -> float:
    """Count the bytes while softmax is differentiated, or at the end, with all gradients."""
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
    """Count the bytes of projected keys or values padded to the width of the other."""
    return float(p.B * p.kv_heads * projection.slots * max(p.D, p.M) * p.dtype.bytes) if p.M != p.D else 0.0


def _rows(p: Problem) -> float:
    """Count the bytes of the output, a logsumexp in float32 at least, and queries padded to the width of values."""
    width = max(p.D, p.M)
    return p.B * p.H * p.N * ((width + (width if p.M > p.D else 0)) * p.dtype.bytes + max(4, p.dtype.bytes))


def _as_zeros(p: Problem) -> float:
    """Count the bytes of copies of k and v with zeros in hidden rows."""
    return float(p.B * p.kv_heads * p.N * (p.D + p.M) * p.dtype.bytes) if p.padding else 0.0
