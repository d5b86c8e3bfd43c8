"""How a pass of the CUDA kernels lies over threads and blocks.

D query/key width, M value width, N tokens. A pass is one recurrence: rows of the state are summed over, columns come out.
The numbers are those of `Plan` in causal_product.cu, which says what they mean.
"""

from dataclasses import dataclass
from enum import Enum

WIDEST = 128
"""Rows of a state that fit into the registers of eight lanes."""
_ENOUGH_WARPS, _WANTED_WARPS = 512, 1024  # an H100 has 528 schedulers, each of which wants a warp or two
_SHORTEST = 256  # tokens of a segment: shorter ones spend more on their states than on themselves


class Pass(Enum):
    """What is computed, by its name in causal_product.cu."""

    FORWARD = "FORWARD"
    QUERIES = "QUERIES"
    KEYS = "KEYS"
    VALUES = "VALUES"


@dataclass(frozen=True)
class Layout:
    """One pass at one pair of widths; `lanes` share a column of the state, `warps` make a block, `tokens` a tile."""

    of: Pass
    rows: int
    columns: int
    lanes: int
    warps: int
    tokens: int

    @property
    def plan(self) -> str:
        """The C++ type."""
        return f"Plan<{self.of.value}, {self.lanes}, {self.warps}, {self.tokens}>"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def padded_rows(self) -> int:
        """Rows as the lanes hold them, in fours."""
        return _ceil(self.rows, 4 * self.lanes) * 4 * self.lanes

    @property
    def slices(self) -> int:
        """Blocks that share one head and segment."""
        return _ceil(self.columns, self._block_columns)

    @property
    def padded_columns(self) -> int:
        """Columns that those blocks cover."""
        return self.slices * self._block_columns

    @property
    def state(self) -> int:
        """Numbers in the stored state of a segment."""
        beside = {Pass.FORWARD: self.padded_rows, Pass.VALUES: 0}.get(self.of, self.padded_columns)
        return self.padded_rows * self.padded_columns + beside

    @property
    def tile(self) -> int:
        """Numbers in the shared memory of a block."""
        return self.tokens * (2 * self.padded_rows + self._block_columns + 2)

    @property
    def _block_columns(self) -> int:
        return self.warps * _warp_columns(self.lanes)

    def segment(self, heads: int, N: int) -> int:
        """Tokens of a segment: N where heads alone fill a GPU, else so many that their segments do.

        By the shape alone, so that every GPU adds in the same order.
        """
        warps = heads * self.slices * self.warps
        if warps >= _ENOUGH_WARPS:
            return N
        length = max(_SHORTEST, _ceil(N, _ceil(_WANTED_WARPS, warps)))
        return min(N, _ceil(length, self.tokens) * self.tokens)

    def stored(self, heads: int, N: int) -> int:
        """Numbers in all stored states; 0 where there is one segment."""
        segments = _ceil(N, self.segment(heads, N))
        return heads * segments * self.state if segments > 1 else 0


def layout(of: Pass, D: int, M: int, itemsize: int) -> Layout:
    """The layout of a pass at these widths, for elements of `itemsize` bytes."""
    rows, columns = (D, M) if of in {Pass.FORWARD, Pass.VALUES} else (M, D)
    lanes = 4 if rows <= 64 else 8
    warps = min(4, _ceil(columns, _warp_columns(lanes)))
    # rows that are no whole 16-byte pieces are fetched number by number: half as many at a time fit into registers
    whole = rows * itemsize % 16 == 0 and columns * itemsize % 16 == 0
    return Layout(of, rows, columns, lanes, warps, tokens=16 if whole else 8)


def _warp_columns(lanes: int) -> int:
    return 32 // lanes * 4


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
