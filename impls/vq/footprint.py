"""The peak of memory of blockwise.py on a CPU, in bytes beyond inputs, with output and gradients; letters as in work.py.

X = B·H rows, G of them together, T tables, n tokens of G rows that are attended at once.
"""

from dataclasses import dataclass

from attnbench.api import Problem

from .block_attention import ROOM, TILE, TOKENS
from .blocks import Blocks
from .codebook import DISTANCES
from .options import MATMUL, RELATIVE, SCAN, VQOptions


@dataclass(frozen=True)
class Footprint:
    """Sizes of one call; `e` bytes of an element, `w` of a sum."""

    p: Problem
    o: VQOptions

    @property
    def e(self) -> int:
        """Return the bytes of an element of q, k and v."""
        return self.p.dtype.bytes

    @property
    def w(self) -> int:
        """Return the bytes of an element of sums."""
        return max(4, self.e)

    @property
    def blocks(self) -> Blocks:
        """Return how the sequence is cut."""
        return Blocks.of(self.p.N, self.o.block, causal=self.p.causal)

    @property
    def rows(self) -> int:
        """Count the rows, X."""
        return self.p.B * self.p.H

    @property
    def together(self) -> int:
        """Count the rows that are taken together, G."""
        p = self.p
        a_row = max(self.blocks.tables * self.o.codes * p.M, p.N * (p.D + p.M))
        return min(self.rows, max(1, ROOM // a_row))

    @property
    def width(self) -> int:
        """Return the width to which the kernel pads."""
        return max(self.p.D, self.p.M)

    @property
    def relative(self) -> bool:
        """Say whether scores in the window have a bias."""
        return self.o.bias == RELATIVE

    @property
    def n(self) -> int:
        """Count the tokens attended at once, n."""
        L, N = self.blocks.L, self.p.N
        tokens = TILE // max(self.o.codes, 2 * L) if self.relative else TOKENS
        blocks = max(1, tokens // (self.together * L))
        return self.together * min(max(1, N // L), blocks) * L

    def forward(self, *, trains: bool = False) -> float:
        """Count the bytes of choosing codes or of attending, whichever are more."""
        return max(self._choosing(), self._attending() + trains * 2 * self.rows * self.p.N * self.w)

    def forward_backward(self) -> float:
        """Count the bytes of what is kept, gradients, and the peak of some rows in the backward."""
        p, tokens = self.p, self.rows * self.p.N
        kept = tokens * ((p.D * (1 + self.relative) + p.M) * self.e + 8 + 3 * self.w) + self._codebook()
        gradients = tokens * (2 * p.D + p.M + self.relative * p.D) * self.e
        kept += self.relative * (p.H * self._of_rows() * 4)
        moment = self._tables() + self._slopes() + max(self._pulling_back(), self._gathering())
        return max(self.forward(trains=True), kept + gradients + moment)

    def _codebook(self) -> float:
        """Count the bytes of the codebook in the dtype it is kept in, float32, and in that of the keys."""
        size = self.p.H * self.o.codes * self.p.D
        return size * (4 + (self.e if self.e != 4 else 0))

    def _choosing(self) -> float:
        """Count the bytes of normalised keys, codes, and some distances; or keys, codes and k̂ with indices."""
        p, S = self.p, self.o.codes
        tokens = self.rows * p.N
        some = min(tokens, max(self.rows, DISTANCES // S // self.rows * self.rows))
        distances = some * (S * max(4, self.e) + 8 + (p.D * 4 if self.e < 4 else 0))
        return tokens * (p.D * self.e + 8) + self._codebook() + max(distances, tokens * (p.D * self.e + 8))

    def _attending(self) -> float:
        """Count the bytes of queries, keys, codes, output and logsumexps, tables of some rows, and two parts of some tokens."""
        p, tokens, L = self.p, self.rows * self.p.N, self.blocks.L
        held = tokens * ((p.D * (2 + self.relative) + p.M) * self.e + 8 + self.w) + self._codebook() + self._tables()
        # r of all heads and of some rows, and what hides later keys
        held += self.relative * ((p.H + self.together) * self._of_rows() + 2 * L * L) * self.w
        by_distance = self.relative * float(self.n * self.w) * (L + 1)
        biases = self.relative * float(self.n * self.w) * 2 * L
        return held + max(self._summing(), by_distance + biases, biases + self._parts() + self._filling_up())

    def _parts(self) -> float:
        """Count the bytes of two outputs of some tokens, one merged into the other; for a first block alone there is one."""
        p, L = self.p, self.blocks.L
        tokens = 2 * self.n if p.causal and p.N >= 2 * L else max(self.n, 2 * self.together * (p.N % L))
        return float(tokens * (self.width * self.e + 2 * self.w) + self.n * (p.M * self.w if self.e < 4 else 0))

    def _filling_up(self) -> float:
        """Count the bytes of queries and keys, or of values, padded to the kernel's width."""
        narrow: float = 0 if self.p.D == self.p.M else self._keys() + (self.n if self.width > self.p.D else 0)
        return float(narrow * self.width * self.e)

    def _keys(self) -> float:
        """Count the most keys of one part: tokens, or codes for each block."""
        return max(self.n, self.n / self.blocks.L * self.o.codes if self.blocks.tables else 0)

    def _tables(self) -> float:
        """Count the bytes of means, counts, and a codebook for each row."""
        rows, S = self.together, self.o.codes
        return float(rows * S * (self.p.D * self.e + self.blocks.tables * (self.p.M * self.e + self.w)))

    def _summing(self) -> float:
        """Count the bytes of tokens' indices and values in the dtype of sums, or of what a reduction holds beside the means."""
        rows, count, S, M = self.together, self.blocks.tables, self.o.codes, self.p.M
        wide = rows * count * S * M * self.w if self.e < 4 else 0
        parted = rows > 1 and self.blocks.absorbed < self.p.N
        copied = parted * self.e + (self.w if self.e < 4 else 0)
        scattering = rows * self.blocks.absorbed * (8 + copied * M)
        reducing = {SCAN: rows * count * S * M * self.w, MATMUL: rows * S * (count * M + 2 * count * count) * self.w}.get(
            self.o.reduction, 0
        )
        return float(wide + max(scattering, reducing if count > 1 else 0))

    def _of_rows(self) -> int:
        """Count the elements of r for one head."""
        return (self.blocks.L + 1) * self.p.D

    def _slopes(self) -> float:
        """Count the bytes of recomputed keys, and of gradients of some rows."""
        p, rows = self.p, self.together
        tables = rows * self.blocks.tables * self.o.codes * p.M * self.w if self.o.gradient_through_table else 0
        positions = self.relative * rows * (p.N * p.D + self._of_rows()) * self.w
        return float(rows * p.N * (p.D * self.e + (2 * p.D + p.M) * self.w) + tables + positions)

    def _pulling_back(self) -> float:
        """Count the bytes of one part's gradients, a copy of dL/do, padding, and tiles of windows with a bias."""
        filling = self._filling_up() + (2 * self.n * self.width * self.e if self.width > self.p.M else 0)
        squares = self.relative * self.n * self.blocks.L * 6 * self.w
        return float((2 * self.n + 2 * self._keys()) * self.width * self.e + filling + squares)

    def _gathering(self) -> float:
        """Count the bytes of what tables add to values, and of its indices."""
        if not (self.o.gradient_through_table and self.blocks.tables):
            return 0
        return float(self.together * self.blocks.absorbed * (self.p.M * self.w + 8))
