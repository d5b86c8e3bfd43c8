"""FLOPs of matrix products and bytes of attention over quantised keys, by formula, with the letters of blocks.py.

B batch, H heads of q, K of k and v, D query/key width, M value width, S codes, W tokens of a window when one more is decoded,
P = D width of the sinusoids.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .blocks import Blocks
from .options import MATMUL, RELATIVE, VQOptions


def cost_by_blocks(problem: Problem, options: VQOptions, workload: Workload) -> Cost:
    """Compute the cost of Transformer-VQ by blocks."""
    work = Work(problem, options, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=work.exact,
        executed_flops=work.executed,
        traffic_bytes=work.traffic_bytes,
    )


@dataclass(frozen=True)
class Work:
    """The work of one call."""

    p: Problem
    o: VQOptions
    workload: Workload

    @property
    def trains(self) -> bool:
        """Say whether there is a backward."""
        return self.workload is Workload.FORWARD_BACKWARD

    @property
    def blocks(self) -> Blocks:
        """Return how the sequence is cut."""
        return Blocks.of(self.p.N, self.o.block, causal=self.p.causal)

    @property
    def relative(self) -> bool:
        """Say whether scores in the window have a bias."""
        return self.o.bias == RELATIVE

    @property
    def exact(self) -> float:
        """Count the choice of codes, and products over visible keys and codes.

        The backward has four products over keys, and over the table, whose codes are constants, three, or two if its values are
        too.
        """
        p, (D, M) = self.p, (self.p.D, self.p.M)
        if self.workload.decodes:
            return self._decoding(D + M)
        near, far = 2.0 * self._own() + 2.0 * self._before(), 2.0 * self._through_table()
        rate = (3.0 if self.trains else 1.0) * (D + M)
        rate_far = (2 * D + (3 if self.o.gradient_through_table else 2) * M) if self.trains else D + M
        positions = self.relative * (3.0 if self.trains else 1.0) * 2.0 * D
        attending = p.H * (near * rate + far * rate_far + positions * self._distances())
        return p.B * (p.kv_heads * self._assigning() + attending) + positions * p.H * min(p.N, self.blocks.L + 1) * D

    @property
    def executed(self) -> float:
        """Count the products as a CPU computes them: in the backward five for each part, two of which are not needed for codes.

        Its fused kernel pads D or M to the wider. With a bias, of which it has no backward, own blocks are squares, and all
        L + 1 distances are computed; tables by `matmul` are products as well.
        """
        p, D, wide = self.p, self.p.D, max(self.p.D, self.p.M)
        if self.workload.decodes:
            return self._decoding(2 * wide)
        near, far = self._own(square=self.relative) + self._before(), self._through_table()
        slopes = 3 * D + 2 * p.M if self.relative else 5 * wide
        attending = near * (2 * wide + self.trains * slopes) + far * (2 + 5 * self.trains) * wide
        reach, times = self.blocks.L + 1, 1 + self.trains
        count = self.blocks.tables
        tables = times * self.o.codes * count * count * p.M if self.o.reduction == MATMUL and count > 1 else 0
        positions = self.relative * D * p.N * reach * (1 + 3 * self.trains)
        rows = self.relative * p.H * reach * D * D * (1 + 2 * self.trains)
        of_keys, of_queries = self._assigning() + 2.0 * tables, 2.0 * (attending + positions)
        return p.B * (p.kv_heads * of_keys + p.H * of_queries) + 2.0 * rows

    def _decoding(self, rate: int) -> float:
        """Count the products of decoding the N-th token, or N tokens from nothing, at so many for each pair."""
        p, S, D = self.p, self.o.codes, self.p.D
        steps, windows, tables, distances = decoded(p.N, self.o.block, whole=self.workload is Workload.DECODE_TOTAL)
        of_queries = (windows + tables * S) * rate + self.relative * D * (steps * D + distances)
        return 2.0 * p.B * (p.kv_heads * steps * S * D + p.H * of_queries)

    @property
    def traffic_bytes(self) -> float:
        """Count the bytes that any attention moves, and the codebook.

        Steps read the window, the table if any, and the codebook, once for the batch, and write their token and its code.
        """
        p, o, codebook = self.p, self.o, self.p.kv_heads * self.o.codes * self.p.D * 4.0
        if not self.workload.decodes:
            return io_bytes(p, self.workload) + codebook
        steps, windows, tables, _ = decoded(p.N, o.block, whole=self.workload is Workload.DECODE_TOTAL)
        token, table = (p.D + p.M) * p.dtype.bytes, o.codes * (p.M + 1) * max(4, p.dtype.bytes)
        moved = windows * token + steps * (token + 8) + tables * table
        return io_bytes(p, self.workload) + p.B * p.kv_heads * moved + steps * codebook

    def _assigning(self) -> float:
        """Count the choice of codes of one head of k, which has no gradient."""
        return 2.0 * self.p.N * self.o.codes * self.p.D

    def _own(self, *, square: bool = False) -> float:
        """Count the pairs within a block, of one head."""
        if not self.p.causal:
            return 0
        L = self.blocks.L
        whole, rest = divmod(self.p.N, L)
        return float(whole * L * L + rest * rest) if square else (whole * L * (L + 1) + rest * (rest + 1)) / 2

    def _before(self) -> float:
        """Count the pairs with the block before."""
        return float(self.blocks.L * (self.p.N - self.blocks.L)) if self.p.causal else 0

    def _through_table(self) -> float:
        """Count the pairs of a query and a code."""
        seeing = self.p.N if not self.p.causal else max(0, self.p.N - 2 * self.blocks.L)
        return float(seeing * self.o.codes)

    def _distances(self) -> float:
        """Count the pairs at most L apart, of one head."""
        N, L = self.p.N, self.o.block
        return sum_of_least(N, L + 1)


def decoded(N: int, L: int, *, whole: bool) -> tuple[int, float, int, float]:
    """Count steps, and summed over them tokens in the window, steps with a table, and distances that have a bias.

    These are for the N-th token alone, or for the `whole` sequence.
    """
    if not whole:
        window = filled(N, L)
        return 1, window, int(N > 2 * L), min(window, L + 1)
    late = max(0, N - 2 * L)
    cycles, rest = divmod(late, L)
    windows = sum_of_least(min(N, 2 * L), 2 * L) + late * L + cycles * L * (L + 1) / 2 + rest * (rest + 1) / 2
    return N, windows, late, sum_of_least(N, L + 1)


def filled(N: int, L: int) -> int:
    """Count the tokens in the window when N are decoded, the newest among them."""
    return N if N <= 2 * L else L + (N - 2 * L - 1) % L + 1


def sum_of_least(N: int, most: int) -> float:
    """Compute Σ min(t, most) for t = 1 … N."""
    short = min(N, most)
    return short * (short + 1) / 2 + most * max(0, N - most)
