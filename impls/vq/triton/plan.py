"""The launches of the kernels for one problem: tiles, warps, and the segments of the sequence.

B batch, H heads of q, K of k and v, N tokens, S codes, L tokens of a block, D query/key width, M value width. This needs no
triton.
"""

from dataclasses import dataclass

from ...partial.tiles import Arithmetic
from .tuning import Blocks, Cut, blocks, cut, fitted


@dataclass(frozen=True)
class Shape:
    """The sizes of one call."""

    B: int
    H: int
    kv_heads: int
    N: int
    D: int
    M: int
    S: int
    L: int
    causal: bool

    @property
    def heads(self) -> int:
        """Compute B·H."""
        return self.B * self.H

    @property
    def groups(self) -> int:
        """Compute B·K."""
        return self.B * self.kv_heads


@dataclass(frozen=True)
class Plan:
    """The tile of each kernel, and the segments and tables of the sequence."""

    shape: Shape
    blocks: Blocks
    cut: Cut

    @classmethod
    def of(cls, shape: Shape, kind: Arithmetic, chosen: Blocks | None = None) -> "Plan":
        """Plan a call, with the table's blocks unless given, and no tile longer than the tokens or codes that exist."""
        usual, S = chosen or blocks(shape.D, shape.M, kind), shape.S
        walks = shape.groups * -(-S // fitted(usual.sums, S, shape.N).own)
        parts = cut(shape.N, shape.L, causal=shape.causal, walks=walks)
        own = min(parts.tokens, shape.N)
        seen = max(S, min(2 * own, shape.N)) if shape.causal else S
        few = Blocks(
            sums=fitted(usual.sums, S, own),
            attend=fitted(usual.attend, own, seen),
            queries=fitted(usual.queries, own, seen),
            codes=fitted(usual.codes, S, own),
            keys=fitted(usual.keys, own, min(2 * own, shape.N)),
        )
        return cls(shape, few, parts)

    def of_tokens(self, heads: int, block: int) -> int:
        """Count programs with one for each tile of tokens of each segment of so many heads."""
        segments = -(-self.shape.N // self.cut.tokens)
        return heads * segments * -(-self.cut.tokens // block)

    def of_codes(self, block: int) -> int:
        """Count programs with one for each tile of codes of each table of each head of k."""
        return self.shape.groups * self.cut.tables * -(-self.shape.S // block)

    def of_walks(self, block: int) -> int:
        """Count programs with one for each tile of codes of each head of k, through all tables."""
        return self.shape.groups * -(-self.shape.S // block)
