"""Rectangles: queries and keys on regular grids, all tiles of which share one mask; bands are cut into them.

B batch, H heads, N tokens, Y tiles, Q queries, S keys of a tile, R rows: samples and heads, folded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """Tokens on a regular grid: cell a of tile y is token first + y * apart + a * stride, y < count, a < length."""

    first: int
    count: int
    apart: int
    length: int
    stride: int = 1

    def tokens(self) -> Tensor:
        """List the tokens: int64 [count, length]."""
        return self.first + self.apart * torch.arange(self.count)[:, None] + self.stride * torch.arange(self.length)

    def tiles(self, start: int, stop: int) -> "Grid":
        """Keep only tiles start … stop - 1."""
        return replace(self, first=self.first + start * self.apart, count=stop - start)

    def disjoint(self) -> Iterator[tuple[slice, "Grid"]]:
        """Cut the tiles into pieces in which no two tiles overlap: which cells, and where they are."""
        step = self.length
        # blocks that slide by less than their length overlap; tiles that are residues only interleave
        if self.count > 1 and self.stride <= self.apart < self.length * self.stride:
            step = self.apart // self.stride
        for a in range(0, self.length, step):
            cells = slice(a, min(a + step, self.length))
            yield cells, replace(self, first=self.first + a * self.stride, length=cells.stop - a)


@dataclass(frozen=True)
class Stairs:
    """A mask: cell a of the queries sees cell b of the keys where low <= (a + query) // query_unit - b // key_unit <= high.

    `keys` cells, counted from 0, or up to -1 if `at_end`. A tile with fewer keys uses the first, or the last, of them: tiles
    that differ in nothing else share one mask.
    """

    queries: int
    keys: int
    query: int
    low: int | None
    high: int | None
    query_unit: int = 1
    key_unit: int = 1
    at_end: bool = False

    def bias(self, like: Tensor) -> Tensor:
        """Build the bias [queries, keys]: 0 where a key is seen, else -inf."""
        first = -self.keys if self.at_end else 0
        a = torch.arange(self.query, self.query + self.queries, dtype=torch.int32, device=like.device)[:, None]
        b = torch.arange(first, first + self.keys, dtype=torch.int32, device=like.device)
        difference = a // self.query_unit - b // self.key_unit
        bias = torch.zeros(self.queries, self.keys, dtype=like.dtype, device=like.device)
        if self.low is not None:
            bias.masked_fill_(difference < self.low, -torch.inf)
        if self.high is not None:
            bias.masked_fill_(difference > self.high, -torch.inf)
        return bias

    def of(self, bias: Tensor, keys: int) -> Tensor:
        """Select the bias of a tile with that many keys, a view."""
        return bias[:, self.keys - keys :] if self.at_end else bias[:, :keys]


@dataclass(frozen=True)
class Rectangle:
    """Tile y of `queries` sees tile y of `keys`: all of it, causally (cell a sees b <= a), or by stairs.

    Every query sees a key. `summary`: keys are cells of the summary. `fresh`: none of these queries was in an earlier
    rectangle.
    """

    queries: Grid
    keys: Grid
    causal: bool = False
    stairs: Stairs | None = None
    summary: bool = False
    fresh: bool = False

    def tiles(self, start: int, stop: int) -> "Rectangle":
        """Keep only tiles start … stop - 1."""
        return replace(self, queries=self.queries.tiles(start, stop), keys=self.keys.tiles(start, stop))


@dataclass(frozen=True)
class Lines:
    """Some rows of x [., N, W], dense in the last two dimensions; sums have no W, [., N]."""

    x: Tensor
    rows: range

    def grid(self, grid: Grid) -> Tensor:
        """Select a grid: [R, Y, length, W], a view."""
        row, token, *width = self.x.stride()
        offset = self.x.storage_offset() + self.rows.start * row + grid.first * token
        strides = (self.rows.step * row, grid.apart * token, grid.stride * token, *width)
        return self.x.as_strided((len(self.rows), grid.count, grid.length, *self.x.shape[2:]), strides, offset)

    def whole(self) -> Tensor:
        """Select all tokens: [R, N, W], a view."""
        return self.x[self.rows.start : self.rows.stop : self.rows.step]
