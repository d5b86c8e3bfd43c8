"""The layout of a pass of the CUDA kernels over threads and blocks.

D query/key width, M value width, N tokens. A pass is one recurrence: rows of the state are summed over, columns are the result.
The numbers are those of `Plan` in causal_product.cu, which explains them.
"""

from dataclasses import dataclass
from enum import Enum

WIDEST = 128
"""Greatest number of rows of a state that fits into the registers of eight lanes."""
# an H100 has 528 schedulers, each of which hides the latency of one warp behind others: two are enough where three would cost
# the sums of segments
_ENOUGH_WARPS, _WANTED_WARPS = 1024, 1584
_SHORTEST = 256  # least tokens of a segment: the states of shorter ones cost more than their tokens


class Pass(Enum):
    """The passes, by their names in causal_product.cu."""

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
        """Write the C++ type of this layout, Plan<...>, as causal_product.cu names it."""
        return f"Plan<{self.of.value}, {self.lanes}, {self.warps}, {self.tokens}>"

    @property
    def threads(self) -> int:
        """Count the threads of a block."""
        return 32 * self.warps

    @property
    def padded_rows(self) -> int:
        """Count the rows as the lanes hold them, in fours."""
        return _ceil(self.rows, 4 * self.lanes) * 4 * self.lanes

    @property
    def slices(self) -> int:
        """Count the blocks that share one head and segment."""
        return _ceil(self.columns, self._block_columns)

    @property
    def padded_columns(self) -> int:
        """Count the columns that those blocks cover."""
        return self.slices * self._block_columns

    @property
    def state(self) -> int:
        """Count the numbers in the stored state of a segment."""
        beside = {Pass.FORWARD: self.padded_rows, Pass.VALUES: 0}.get(self.of, self.padded_columns)
        return self.padded_rows * self.padded_columns + beside

    @property
    def tile(self) -> int:
        """Count the numbers in the shared memory of a block."""
        return self.tokens * (2 * self.padded_rows + self._block_columns + 2)

    @property
    def _block_columns(self) -> int:
        return self.warps * _warp_columns(self.lanes)

    def segment(self, heads: int, N: int) -> int:
        """Choose the tokens of a segment: N where heads alone fill a GPU, else so many that the segments do.

        The choice depends on the shape alone, so that every GPU adds in the same order.
        """
        warps = heads * self.slices * self.warps
        if warps >= _ENOUGH_WARPS:
            return N
        length = max(_SHORTEST, _ceil(N, _ceil(_WANTED_WARPS, warps)))
        return min(N, _ceil(length, self.tokens) * self.tokens)

    def stored(self, heads: int, N: int) -> int:
        """Count the numbers in all stored states; 0 where there is one segment."""
        segments = _ceil(N, self.segment(heads, N))
        return heads * segments * self.state if segments > 1 else 0


def layout(of: Pass, D: int, M: int, itemsize: int) -> Layout:
    """Choose the layout of a pass at these widths, for elements of `itemsize` bytes."""
    rows, columns = (D, M) if of in {Pass.FORWARD, Pass.VALUES} else (M, D)
    lanes = 4 if rows <= 64 else 8
    warps = min(4, _ceil(columns, _warp_columns(lanes)))
    # rows that are no whole 16-byte pieces are fetched number by number, so only half as many tokens fit into registers
    whole = rows * itemsize % 16 == 0 and columns * itemsize % 16 == 0
    return Layout(of, rows, columns, lanes, warps, tokens=16 if whole else 8)


def _warp_columns(lanes: int) -> int:
    return 32 // lanes * 4


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
