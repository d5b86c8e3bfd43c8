"""What the naive chunked functions of flash-linear-attention 0.6 compute and allocate on a CPU.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width. Counts are for each of the B H N rows.
"""

from dataclasses import dataclass, field

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .cost import Work, exact_flops, gate_bytes


@dataclass(frozen=True)
class Elements:
    """Float32 numbers per row at the peak, beside output and gradients, in units of D, M, L, L², L D and D M.

    L²/2 (or /3) and 6 L D are what autograd keeps of the loops; the rest is fitted to torch's profiler, within 8 %.
    """

    D: float = 0
    M: float = 0
    L: float = 0
    LL: float = 0
    LD: float = 0
    state: float = 0
    """Numbers per chunk, in units of D × M."""

    def count(self, p: Problem, L: int) -> float:
        """Count the numbers of one row for chunks of L tokens."""
        within = self.D * p.D + self.M * p.M + self.L * L + self.LL * L * L + self.LD * L * p.D
        return within + self.state * p.D * p.M / L


@dataclass(frozen=True)
class Naive:
    """What one naive function holds at its peak, in a forward and in training."""

    forward: Elements = field(default_factory=Elements)
    training: Elements = field(default_factory=Elements)


def cost_of_naive(p: Problem, work: Work, naive: Naive, L: int, workload: Workload) -> Cost:
    """Compute the cost of one call: whole L × L tiles, N padded to whole chunks; autograd keeps each row of the systems."""
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * -(-p.N // L) * L
    gradients = 2 * p.D + p.M + work.gates(p) if trains else 0
    elements = p.M + gradients + (naive.training if trains else naive.forward).count(p, L)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, work, workload),
        executed_flops=rows * _products(p, work, L) * (3 if trains else 1),
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload),
        peak_bytes=rows * elements * max(4, p.dtype.bytes),
    )


def _products(p: Problem, work: Work, L: int) -> float:
    """Count FLOPs per row: pairs, the inverse row by row, W and U through it, sums over pairs, and the state's."""
    within = 2.0 * L * (work.pairs * p.D + work.sums * p.M) + 2.0 * L * (p.D + p.M) + L * L
    return within + 2.0 * work.reads * p.D * p.M
