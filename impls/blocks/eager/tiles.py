"""Patterns of visible keys as tiles: some queries, the range of keys that they see, and a mask.

X samples and heads of k, R heads of q that share one, N queries, L tokens of a block, D query/key width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...partial.softmax import Rule, sums

_STAIRS = 512  # queries of a tile: several blocks' worth, so that few of the means that it covers are hidden


@dataclass(frozen=True)
class Tile:
    """Queries `start` … `stop` and the keys `first` … `end` that they may see."""

    start: int
    stop: int
    first: int
    end: int


class Pattern(Protocol):
    """The keys that a query sees; each query is in at most one tile, and sees at least one key there."""

    def tiles(self, N: int) -> list[Tile]:
        """Cut N queries into tiles; those that see no key are in none."""

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """Say whether query i sees key j."""


@dataclass(frozen=True)
class Stairs:
    """The pattern of compressed blocks: key c is a block of L tokens, and token i sees it once complete, (c + 1) L <= i + 1."""

    block: int

    def tiles(self, N: int) -> list[Tile]:
        """Cut all queries but the first L - 1, which see nothing, into tiles."""
        ends = ((a, min(a + _STAIRS, N)) for a in range(self.block - 1, N, _STAIRS))
        return [Tile(a, b, 0, b // self.block) for a, b in ends]

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """Say whether block j is complete at token i."""
        return (j + 1) * self.block <= i + 1


@dataclass(frozen=True)
class Window:
    """The pattern of a sliding window: the last `width` tokens, counting the query's own."""

    width: int

    def tiles(self, N: int) -> list[Tile]:
        """Cut N queries into tiles of half a window (64 to 256 queries), which hides about a third of the pairs."""
        step = max(64, min(256, self.width // 2))
        ends = ((a, min(a + step, N)) for a in range(0, N, step))
        return [Tile(a, b, max(0, a - self.width + 1), b) for a, b in ends]

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """Say whether 0 <= i - j < width."""
        return (j <= i) & (i < j + self.width)


@dataclass(frozen=True)
class Tiling:
    """A pattern, and the factor for scores."""

    pattern: Pattern
    scale: float

    def rules(self, q: Tensor) -> Iterator[tuple[Tile, Rule]]:
        """Go through the tiles of queries [X, R, N, D], each with its rule; neighbouring tiles with the same mask share it."""
        known: tuple[Tile, Rule] | None = None
        for tile in self.pattern.tiles(q.shape[2]):
            if known is None or not self._same(known[0], tile):
                known = tile, Rule(self.scale, bias=self._bias(tile, q))
            yield tile, known[1]

    def _same(self, one: Tile, other: Tile) -> bool:
        """Say whether the other tile is the first one moved along a window's diagonal, so that its mask is the same."""
        moved = Tile(*(x + other.start - one.start for x in (one.start, one.stop, one.first, one.end)))
        return isinstance(self.pattern, Window) and moved == other

    def _bias(self, tile: Tile, q: Tensor) -> Tensor:
        i = torch.arange(tile.start, tile.stop, device=q.device).unsqueeze(1)
        seen = self.pattern.sees(i, torch.arange(tile.first, tile.end, device=q.device))
        return torch.zeros(seen.shape, dtype=sums(q.dtype), device=q.device).masked_fill_(~seen, -torch.inf)
