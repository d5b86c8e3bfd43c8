"""Sequences cut into segments, each of which sees itself and a memory of the tokens before it.

X = B H rows (batch and heads folded), N tokens, S segments of L tokens, W = memory + L tokens of a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ...recurrence.chunks import Chunks

Tile = tuple[slice, slice]
"""A range of rows, and a range of their segments."""


@dataclass(frozen=True)
class Segments:
    """N tokens in segments of L, the last one padded; token i of segment s sees tokens s L - memory … i."""

    N: int
    L: int
    memory: int

    @classmethod
    def of(cls, N: int, segment: int, memory: int) -> Self:
        """Cut N tokens: no segment is longer than the sequence, and no memory longer than what precedes the last segment."""
        L = max(1, min(segment, N))
        return cls(N, L, min(memory, max(0, -(-N // L) - 1) * L))

    @property
    def count(self) -> int:
        """Count the segments, S."""
        return -(-self.N // self.L)

    @property
    def width(self) -> int:
        """Count the tokens of a window, W."""
        return self.memory + self.L

    @property
    def filled(self) -> bool:
        """Say whether windows need more tokens than there are."""
        return self.memory > 0 or self.count * self.L != self.N

    def cut(self, x_BHNC: Tensor) -> Tensor:
        """Cut into segments: [B, H, N, C] -> [X, S, L, C]."""
        return Chunks(self.N, self.L).cut(x_BHNC)

    def join(self, x: Tensor, B: int) -> Tensor:
        """Undo `cut`: [X, S, L, C] -> [B, H, N, C]."""
        return Chunks(self.N, self.L).join(x, B)

    def windows(self, x_BHNC: Tensor) -> Tensor:
        """Form windows [B, H, N, C] -> [X, S, W, C], overlapping in memory, with zeros beyond both ends of the sequence."""
        ends = (0, 0, self.memory, self.count * self.L - self.N)
        x = (F.pad(x_BHNC, ends) if self.filled else x_BHNC).reshape(-1, self.memory + self.count * self.L, x_BHNC.shape[-1])
        return x.unfold(1, self.width, self.L).mT

    def hidden(self, segments: slice, device: torch.device) -> Tensor:
        """Mark tokens that are later than the query or before the first.

        Bool [L, W] where these segments are alike, else [·, L, W].
        """
        query = torch.arange(self.L, device=device)[:, None]
        key = torch.arange(self.width, device=device)
        later = key > query + self.memory
        if segments.start * self.L >= self.memory:
            return later
        first = self.memory - self.L * torch.arange(segments.start, segments.stop, device=device)
        return later | (key < first[:, None, None])

    def tiles(self, rows: int, scores: int) -> Iterator[Tile]:
        """Cut all segments of X rows into tiles of at most `scores` scores, or of one segment."""
        each = self.L * self.width
        step, segments = max(1, scores // (each * self.count)), max(1, min(self.count, scores // each))
        for x in range(0, rows, step):
            for s in range(0, self.count, segments):
                yield slice(x, min(x + step, rows)), slice(s, min(s + segments, self.count))

    def pairs(self) -> int:
        """Count the (query, key) pairs that are seen in one head."""
        remembered = sum(min(self.memory, s * self.L) * (min(self.N, (s + 1) * self.L) - s * self.L) for s in range(self.count))
        return remembered + self.own_pairs()

    def own_pairs(self) -> int:
        """Count the pairs within segments."""
        rest = self.N % self.L
        return (self.N // self.L) * (self.L * (self.L + 1) // 2) + rest * (rest + 1) // 2

    def seen(self, i: int) -> int:
        """Count the keys that token i sees."""
        return i - max(0, i // self.L * self.L - self.memory) + 1
