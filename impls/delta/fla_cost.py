"""What one call of flash-linear-attention 0.6 computes and allocates, read off its source.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width. Counts are for each of the B H N rows.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .cost import Work, exact_flops, gate_bytes


@dataclass(frozen=True)
class Kept:
    """Elements of a row that its kernels keep beside inputs and output, in the inputs' dtype unless float32 is said."""

    chunk: int
    forward: tuple[int, int]
    """Of width D, of width M: running sums of decays, W, U, V less what is known."""
    training: tuple[int, int]
    """The same with the backward's, and its partial gradients."""
    pairs: tuple[int, int]
    """Of width L, forward and training."""


def cost_of_kernels(p: Problem, work: Work, kept: Kept, workload: Workload) -> Cost:
    """Whole L × L tiles, the inverse of the triangular system, and the states between chunks, made again in the backward."""
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, work, workload),
        executed_flops=rows * _products(p, work, kept.chunk) * (4 if trains else 1),
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload),
        peak_bytes=rows * p.dtype.bytes * _elements(p, work, kept, trains),
    )


def _products(p: Problem, work: Work, L: int) -> float:
    """Pairs, the inverse (L²/3 a token), W and U through it, sums over pairs, and the state's."""
    within = 2.0 * L * (work.pairs * p.D + work.sums * p.M) + 2.0 * L * (p.D + p.M) + L * L / 3
    return within + 2.0 * work.reads * p.D * p.M


def _elements(p: Problem, work: Work, kept: Kept, trains: bool) -> float:
    """The output, and in the backward gradients; what is kept; a state for each chunk, in the backward two."""
    wide, values = kept.training if trains else kept.forward
    gradients = 2 * p.D + p.M + work.gates(p) if trains else 0
    states = (2 if trains else 1) * p.D * p.M / kept.chunk
    return p.M + gradients + wide * p.D + values * p.M + kept.pairs[trains] * kept.chunk + states
