"""Bands over arithmetic progressions of tokens: sets of (query, key) pairs that fast code can walk.

N tokens, L tokens of a block, C cells of a summary. Groups are disjoint; queries of a group see keys of the same group.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Span = tuple[int, int]
"""A range of numbers: the first, and the one after the last."""


@dataclass(frozen=True)
class Band:
    """Query a of a group sees key b of that group where low <= a // query_unit - b // key_unit <= high.

    Position a of group g is token g * apart + a * stride, for a < length and tokens below N: groups are blocks (stride 1) or
    residues (apart 1). Only tokens within `queries` are queries of this band and only tokens within `keys` are keys, limited to
    the positions `cells` of each group. A band over a summary has one group, and b is a position in the summary; `keys` then
    are positions too. A limit of None means no limit.
    """

    length: int
    queries: Span
    keys: Span
    low: int | None = 0
    high: int | None = None
    groups: int = 1
    apart: int = 0
    stride: int = 1
    query_unit: int = 1
    key_unit: int = 1
    cells: Span | None = None
    summary: bool = False

    def position(self, token: int) -> tuple[int, int] | None:
        """Return a query's position and group, or None where it is no query of this band."""
        # groups are either residues or blocks
        g = token % self.stride if self.stride > 1 else token // self.apart if self.groups > 1 else 0
        a = (token - g * self.apart) // self.stride
        return (a, g) if self.queries[0] <= token < self.queries[1] and a < self.length else None

    def query_positions(self, g: int) -> Span:
        """Return the positions of group g that are queries."""
        return self._positions(g, self.queries)

    def key_positions(self, g: int) -> Span:
        """Return the positions of group g that are keys."""
        if self.summary:
            return self.keys
        first, stop = self._positions(g, self.keys)
        low, high = self.cells or (first, stop)
        return max(first, low), max(first, low, min(stop, high))

    def seen(self, a: int, g: int = 0) -> Span:
        """Return the positions of the keys of a query, a range that is empty unless the second exceeds the first."""
        first, stop = self.key_positions(g)
        row = a // self.query_unit
        if self.high is not None:
            first = max(first, (row - self.high) * self.key_unit)
        if self.low is not None:
            stop = min(stop, (row - self.low + 1) * self.key_unit)
        return first, max(first, stop)

    def _positions(self, g: int, tokens: Span) -> Span:
        start = g * self.apart
        first, stop = (max(0, -(-(t - start) // self.stride)) for t in tokens)
        return min(first, self.length), min(stop, self.length)


@dataclass(frozen=True)
class Summary:
    """Some cells of every block of L tokens: for each head C of them, from cell `starts[head]` on.

    Cell b of head h is token (b // C) * L + starts[h] + b % C; there are `count`.
    """

    block: int
    cells: int
    starts: tuple[int, ...]
    count: int

    def tokens(self) -> Tensor:
        """List the tokens: int64 [heads, count]."""
        b = torch.arange(self.count)
        return torch.tensor(self.starts)[:, None] + b // self.cells * self.block + b % self.cells


@dataclass(frozen=True)
class Part:
    """The union of disjoint bands that some heads of a layer see."""

    heads: tuple[int, ...]
    bands: tuple[Band, ...]
    summary: Summary | None = None

    def pairs(self) -> int:
        """Count the (query, key) pairs that one head sees."""
        return sum(pairs(band) for band in self.bands)

    def dense(self, N: int) -> Tensor:
        """Count how often each pair is in a band, int64 [heads, N, N]: with disjoint bands 1 where a key is seen, else 0."""
        count = torch.zeros(len(self.heads), N, N, dtype=torch.int64)
        for band in self.bands:
            for g in range(band.groups):
                for a in range(*band.query_positions(g)):
                    first, stop = band.seen(a, g)
                    b = torch.arange(first, stop)
                    if band.summary:
                        assert self.summary is not None
                        for head, tokens in enumerate(self.summary.tokens()):
                            count[head, g * band.apart + a * band.stride, tokens[b]] += 1
                    else:
                        count[:, g * band.apart + a * band.stride, g * band.apart + b * band.stride] += 1
        return count


def pairs(band: Band) -> int:
    """Count the (query, key) pairs in a band; groups of the same shape are counted once and multiplied."""
    shapes: dict[tuple[Span, Span], int] = {}
    for g in range(band.groups):
        shape = band.query_positions(g), band.key_positions(g)
        shapes[shape] = shapes.get(shape, 0) + 1
    return sum(times * _pairs_of_group(band, *shape) for shape, times in shapes.items())


def _pairs_of_group(band: Band, queries: Span, keys: Span) -> int:
    row = torch.arange(*queries) // band.query_unit
    first, stop = torch.full_like(row, keys[0]), torch.full_like(row, keys[1])
    if band.high is not None:
        first = first.maximum((row - band.high) * band.key_unit)
    if band.low is not None:
        stop = stop.minimum((row - band.low + 1) * band.key_unit)
    return int((stop - first).clamp(min=0).sum())
