"""FLOPs and bytes of Nyström attention.

Left out of the peaks: scratch of the fused kernels, and the packed copies of half-precision k and v that some CPUs make.

B batch, H heads, N tokens, S landmarks, D query/key width, M value width, W the wider of both, T tokens of the convolution.
"""

from dataclasses import dataclass
from typing import Self

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .options import Options


def cost_of(p: Problem, options: Options, workload: Workload) -> Cost:
    """Compute the cost of one call: both long softmaxes are fused, and computed again in the backward.

    A depthwise convolution is no matrix product, so it counts no FLOPs.
    """
    trains, rows, S = workload is Workload.FORWARD_BACKWARD, float(p.B * p.H * p.N), options.segments(p.N)
    passes = 3.0 if trains else 1.0
    small = passes * p.B * p.H * (2.0 * S * S * (p.D + p.M) + options.iterations * 8.0 * S**3)
    weights = p.H * options.convolution_kernel * p.dtype.bytes
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=passes * rows * 4.0 * S * (p.D + p.M) + small,
        executed_flops=(3.5 if trains else 1.0) * rows * 8.0 * S * max(p.D, p.M) + small,
        traffic_bytes=io_bytes(p, workload) + passes * weights,
        peak_bytes=_backward_peak(p, options) if trains else _forward_peak(p, options),
    )


@dataclass(frozen=True)
class _Bytes:
    """Bytes of landmarks, of tensors with N rows, and of squares S × S in float32 at least."""

    landmarks: float
    square: float
    row: float
    """Bytes of one column with N rows."""
    logsumexp: float

    @classmethod
    def of(cls, p: Problem, options: Options) -> Self:
        """Compute the sizes for all heads and samples."""
        heads, e, wide, S = p.B * p.H, p.dtype.bytes, max(4, p.dtype.bytes), options.segments(p.N)
        return cls(heads * S * 2.0 * p.D * e, float(heads * S * S * wide), float(heads * p.N * e), float(heads * p.N * wide))


def _forward_peak(p: Problem, options: Options) -> float:
    """Count the bytes beside the landmarks: of the iteration, of either softmax with padding, or of the convolution."""
    x, width = _Bytes.of(p, options), max(p.D, p.M)
    output = width * x.row
    first = x.square + (output if p.M != p.D else 0)
    second = x.square + x.landmarks * p.M / p.D / 2 + output + x.logsumexp + (output if p.M > p.D else 0)
    return x.landmarks + max(6 * x.square, first, second, _convolution(p, options, rows=1) + x.square + output)


def _backward_peak(p: Problem, options: Options) -> float:
    """Count the bytes while convolution, a softmax, the iteration or the means are differentiated."""
    x, width = _Bytes.of(p, options), max(p.D, p.M)
    kept = x.landmarks + x.square * (5 * options.iterations + 2)
    other = width if p.M != p.D else 0
    softmax = kept + 2 * x.landmarks + x.row * (3 * width + p.D + other)
    gradients = x.row * (width + 2 * p.D + p.M)
    convolution = _convolution(p, options, rows=6) + kept + x.logsumexp
    return max(softmax, gradients + kept + 4 * x.square, gradients + x.row * p.D + 2 * x.landmarks, convolution)


def _convolution(p: Problem, options: Options, rows: int) -> float:
    """Count the bytes of copies of v, and of two in the layout of torch's kernel for CPUs, which pads heads to 16."""
    if not options.convolution_kernel:
        return 0.0
    return p.B * p.N * p.M * p.dtype.bytes * (p.H * rows + 2.0 * 16 * -(-p.H // 16))
