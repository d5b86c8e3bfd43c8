"""Keys and values that are kept for later queries, and where.

b batch, K heads of k and v, n tokens, D query/key width, M value width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Heads = slice | list[int]
"""Some heads: as a slice, by which they are a view, or as a list."""


@dataclass(frozen=True)
class Slots:
    """The slots in which tokens are kept: position b of group g is in slot (b - first) mod size of the group's ring.

    Positions and groups are those of a band (band.py): residues of `stride`, or blocks of `block` tokens, or all tokens.
    Positions from `first` to before `stop` are kept. There are `rings`, one for each group, and none for groups beyond; if
    `reused`, one ring serves all groups, which come one after the other.
    """

    first: int
    stop: int
    size: int
    stride: int = 1
    block: int = 0
    rings: int = 1
    reused: bool = False

    @property
    def count(self) -> int:
        """Count all slots."""
        return self.rings * self.size

    def of(self, token: int) -> int | None:
        """Return the slot of a token, or None where it is not kept."""
        b, g = divmod(token, self.stride)
        if self.block:
            g, b = divmod(token, self.block)
        ring = 0 if self.reused else g
        kept = self.first <= b < self.stop and ring < self.rings
        return ring * self.size + (b - self.first) % self.size if kept else None

    def of_all(self, tokens: Tensor) -> Tensor:
        """Return the slots of many tokens, -1 where one is not kept: int64 [n] -> [n]."""
        b, g = tokens // self.stride, tokens % self.stride
        if self.block:
            g, b = tokens // self.block, tokens % self.block
        ring = torch.zeros_like(g) if self.reused else g
        kept = (b >= self.first) & (b < self.stop) & (ring < self.rings)
        return torch.where(kept, ring * self.size + (b - self.first) % self.size, -1)

    def latest(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the slots in use after n tokens, and the token in each: int64, of the same length."""
        tokens = torch.arange(n, device=device)
        slots = self.of_all(tokens)
        # an additional slot takes tokens that have none
        newest = tokens.new_full((self.count + 1,), -1).scatter_reduce_(0, slots % (self.count + 1), tokens, "amax")[:-1]
        taken = torch.nonzero(newest >= 0).flatten()
        return taken, newest[taken]

    def within(self, g: int, first: int, stop: int) -> slice:
        """Return the slots of positions first … stop of group g: a whole ring, or a range of one that has not wrapped."""
        start, length = 0 if self.reused else g * self.size, stop - first
        # a whole ring is seen completely, so its order does not matter
        low = 0 if length == self.size else first - self.first
        assert low + length <= self.size, "a window that is as wide as its ring never wraps around"
        return slice(start + low, start + low + length)


@dataclass(frozen=True)
class Writer:
    """Heads of k and v that are written to the same slots of these rows of a cache."""

    heads: Heads
    rows: slice
    slots: Slots


@dataclass(frozen=True)
class Cache:
    """The layout of one tensor of keys, [b, rows, slots, D], and one of values, [b, rows, slots, M]."""

    rows: int
    slots: int
    writers: tuple[Writer, ...]

    def holding(self, x: Tensor) -> Tensor:
        """Keep what later queries need of n tokens: [b, K, n, ·] -> [b, rows, slots, ·]; other slots are not yet written."""
        b, _, n, width = x.shape
        cache = x.new_empty(b, self.rows, self.slots, width)
        for writer in self.writers:
            slots, tokens = writer.slots.latest(n, x.device)
            cache[:, writer.rows].index_copy_(2, slots, x[:, writer.heads].index_select(2, tokens))
        return cache

    def write(self, cache: Tensor, x: Tensor, token: int) -> None:
        """Write one token, [b, K, 1, ·], into its slot, if it has one."""
        for writer in self.writers:
            slot = writer.slots.of(token)
            if slot is not None:
                cache[:, writer.rows, slot] = x[:, writer.heads, 0]
