"""Sequences in segments, each of which sees itself and a memory of the tokens before it.

X = B H rows (batch and heads folded), N tokens, S segments of L tokens, W = memory + L tokens of a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ..recurrence.chunks import Chunks

Tile = tuple[slice, slice]
"""Some rows and, of each, some segments."""


@dataclass(frozen=True)
class Segments:
    """N tokens in segments of L, the last one filled up; token i of segment s sees tokens s L - memory … i."""

    N: int
    L: int
    memory: int

    @classmethod
    def of(cls, N: int, segment: int, memory: int) -> Self:
        """No segment longer than the sequence, and no memory of more than there is before the last one."""
        L = max(1, min(segment, N))
        return cls(N, L, min(memory, max(0, -(-N // L) - 1) * L))

    @property
    def count(self) -> int:
        """S."""
        return -(-self.N // self.L)

    @property
    def width(self) -> int:
        """W."""
        return self.memory + self.L

    @property
    def filled(self) -> bool:
        """Whether windows need more tokens than there are."""
        return self.memory > 0 or self.count * self.L != self.N

    def cut(self, x_BHNC: Tensor) -> Tensor:
        """[B, H, N, C] -> [X, S, L, C]."""
        return Chunks(self.N, self.L).cut(x_BHNC)

    def join(self, x: Tensor, B: int) -> Tensor:
        """[X, S, L, C] -> [B, H, N, C]."""
        return Chunks(self.N, self.L).join(x, B)

    def windows(self, x_BHNC: Tensor) -> Tensor:
        """[B, H, N, C] -> [X, S, W, C], zeros before the first token and after the last; windows overlap in memory."""
        ends = (0, 0, self.memory, self.count * self.L - self.N)
        x = (F.pad(x_BHNC, ends) if self.filled else x_BHNC).reshape(-1, self.memory + self.count * self.L, x_BHNC.shape[-1])
        return x.unfold(1, self.width, self.L).mT

    def hidden(self, segments: slice, device: torch.device) -> Tensor:
        """Later tokens, and those before the first: bool, [L, W] where it is the same for these segments, else [·, L, W]."""
        query = torch.arange(self.L, device=device)[:, None]
        key = torch.arange(self.width, device=device)
        later = key > query + self.memory
        if segments.start * self.L >= self.memory:
            return later
        first = self.memory - self.L * torch.arange(segments.start, segments.stop, device=device)
        return later | (key < first[:, None, None])

    def tiles(self, rows: int, scores: int) -> Iterator[Tile]:
        """All segments of X rows, in parts of at most so many scores, or of one segment."""
        each = self.L * self.width
        step, segments = max(1, scores // (each * self.count)), max(1, min(self.count, scores // each))
        for x in range(0, rows, step):
            for s in range(0, self.count, segments):
                yield slice(x, min(x + step, rows)), slice(s, min(s + segments, self.count))

    def pairs(self) -> int:
        """(query, key) pairs that are seen, of one head."""
        remembered = sum(min(self.memory, s * self.L) * (min(self.N, (s + 1) * self.L) - s * self.L) for s in range(self.count))
        return remembered + self.own_pairs()

    def own_pairs(self) -> int:
        """Of them, those within a segment."""
        rest = self.N % self.L
        return (self.N // self.L) * (self.L * (self.L + 1) // 2) + rest * (rest + 1) // 2

    def seen(self, i: int) -> int:
        """Keys that token i sees."""
        return i - max(0, i // self.L * self.L - self.memory) + 1
