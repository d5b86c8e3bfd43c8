"""Patterns of keys as tiles: some queries, the range of keys that these see, and a mask.

X samples and heads of k, R heads of q that share one, N queries, L tokens of a block, D query/key width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..partial.softmax import Rule, sums

_STAIRS = 512  # queries of a tile: some blocks, so that few of their means are hidden


@dataclass(frozen=True)
class Tile:
    """Queries `start` … `stop` and keys `first` … `end`."""

    start: int
    stop: int
    first: int
    end: int


class Pattern(Protocol):
    """Which keys a query sees; each query is in at most one tile, and sees at least one key there."""

    def tiles(self, N: int) -> list[Tile]:
        """Of N queries; those that see nothing are in none."""

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether query i sees key j."""


@dataclass(frozen=True)
class Stairs:
    """Key c stands for a complete block of L tokens: token i sees it where (c + 1) L <= i + 1."""

    block: int

    def tiles(self, N: int) -> list[Tile]:
        """The first L - 1 tokens see nothing."""
        ends = ((a, min(a + _STAIRS, N)) for a in range(self.block - 1, N, _STAIRS))
        return [Tile(a, b, 0, b // self.block) for a, b in ends]

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """Complete blocks, the own one from its last token on."""
        return (j + 1) * self.block <= i + 1


@dataclass(frozen=True)
class Window:
    """The last `width` tokens, the own one among them."""

    width: int

    def tiles(self, N: int) -> list[Tile]:
        """Half a window of queries at a time: half as many keys again are hidden."""
        step = max(64, min(256, self.width // 2))
        ends = ((a, min(a + step, N)) for a in range(0, N, step))
        return [Tile(a, b, max(0, a - self.width + 1), b) for a, b in ends]

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """0 <= i - j < width."""
        return (j <= i) & (i < j + self.width)


@dataclass(frozen=True)
class Tiling:
    """A pattern, and what scores are multiplied by."""

    pattern: Pattern
    scale: float

    def rules(self, q: Tensor) -> Iterator[tuple[Tile, Rule]]:
        """Of the queries [X, R, N, D]; neighbouring tiles that hide alike share one mask."""
        known: tuple[Tile, Rule] | None = None
        for tile in self.pattern.tiles(q.shape[2]):
            if known is None or not self._same(known[0], tile):
                known = tile, Rule(self.scale, bias=self._bias(tile, q))
            yield tile, known[1]

    def _same(self, one: Tile, other: Tile) -> bool:
        """Whether one is the other, moved along the diagonal of a window."""
        moved = Tile(*(x + other.start - one.start for x in (one.start, one.stop, one.first, one.end)))
        return isinstance(self.pattern, Window) and moved == other

    def _bias(self, tile: Tile, q: Tensor) -> Tensor:
        i = torch.arange(tile.start, tile.stop, device=q.device).unsqueeze(1)
        seen = self.pattern.sees(i, torch.arange(tile.first, tile.end, device=q.device))
        return torch.zeros(seen.shape, dtype=sums(q.dtype), device=q.device).masked_fill_(~seen, -torch.inf)
