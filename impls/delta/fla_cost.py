"""What one call of flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width. Counts are for each of the B H N rows.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .cost import Work, exact_flops, gate_bytes


@dataclass(frozen=True)
class Kept:
    """Numbers per row that the kernels keep beside inputs and output, in the inputs' dtype."""

    chunk: int
    forward: tuple[int, int]
    """Tensors of width D and of width M in a forward: sums of decays, W, U, and V without what is known."""
    training: tuple[int, int]
    """The same counts in training, with the tensors and partial gradients of the backward."""
    pairs: tuple[int, int]
    """Tensors of width L, in a forward and in training."""


def cost_of_kernels(p: Problem, work: Work, kept: Kept, workload: Workload) -> Cost:
    """Compute the cost of one call: whole L × L tiles, the inverse of the triangular system, and states between chunks.

    The backward computes the states again.
    """
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, work, workload),
        executed_flops=rows * _products(p, work, kept.chunk) * (4 if trains else 1),
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload),
        peak_bytes=rows * p.dtype.bytes * _elements(p, work, kept, trains),
    )


def _products(p: Problem, work: Work, L: int) -> float:
    """Count FLOPs per row: pairs, the inverse (L²/3 a token), W and U through it, sums over pairs, and the state's."""
    within = 2.0 * L * (work.pairs * p.D + work.sums * p.M) + 2.0 * L * (p.D + p.M) + L * L / 3
    return within + 2.0 * work.reads * p.D * p.M


def _elements(p: Problem, work: Work, kept: Kept, trains: bool) -> float:
    """Count the numbers per row: output, gradients in training, what is kept, and one state a chunk (two in training)."""
    wide, values = kept.training if trains else kept.forward
    gradients = 2 * p.D + p.M + work.gates(p) if trains else 0
    states = (2 if trains else 1) * p.D * p.M / kept.chunk
    return p.M + gradients + wide * p.D + values * p.M + kept.pairs[trains] * kept.chunk + states
