"""The state of decoding over compressed blocks: the last tokens, the entries, and the tokens that are in none yet.

b batch, n tokens so far, W tokens of the window, m tokens of a block, D width of queries and of the key that is also the value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from ...partial.cache import refuse_beyond
from .compressor import Compressor

Stream = tuple[Compressor, Tensor, Tensor]
"""What compresses, with what it compresses and the gates, [b, 1, n, ·] each."""


@dataclass(frozen=True)
class Entries:
    """Entries [b, capacity // m, width], and u and z [b, 2 m, ·] of the block before and of the one that is not whole."""

    made: Tensor
    u: Tensor
    z: Tensor

    @classmethod
    def of(cls, compress: Compressor, u: Tensor, z: Tensor, capacity: int) -> Self:
        """Compress the whole blocks of a prompt, [b, n, ·] each, and keep the last of them and the rest."""
        n, m = u.shape[1], compress.block
        whole = n // m * m
        made = u.new_zeros(len(u), capacity // m, compress.width)
        made[:, : n // m] = compress(u, z)
        kept = [x.new_zeros(len(x), 2 * m, x.shape[-1]) for x in (u, z)]
        for x, place in zip((u, z), kept, strict=True):
            # a whole block, or none
            place[:, m - min(m, whole) : m] = x[:, max(0, whole - m) : whole]
            place[:, m : m + n - whole] = x[:, whole:]
        return cls(made, *kept)

    def take(self, compress: Compressor, u: Tensor, z: Tensor, n: int) -> None:
        """Take in token n, [b, ·] each, and make an entry where it ends a block; in the same memory."""
        m = compress.block
        self.u[:, m + n % m], self.z[:, m + n % m] = u, z
        if (n + 1) % m:
            return
        before = None if n < m else (self.u[:, :m], self.z[:, :m])
        self.made[:, n // m] = compress(self.u[:, m:], self.z[:, m:], before)[:, 0]
        for place in (self.u, self.z):
            place[:, :m] = place[:, m:].clone()


@dataclass(frozen=True)
class CompressedCache:
    """The last W tokens in a ring [b, W, D], entries of each kind, how many tokens there were, and how many may be."""

    recent: Tensor
    entries: tuple[Entries, ...]
    length: int
    capacity: int

    @classmethod
    def of(cls, c: Tensor, streams: Sequence[Stream], window: int, capacity: int) -> Self:
        """Start with a prompt [b, 1, n, D]. Raises ValueError where it does not fit."""
        b, _, n, D = c.shape
        refuse_beyond(n, capacity)
        window = min(window, capacity)
        recent, last = c.new_zeros(b, window, D), torch.arange(max(0, n - window), n, device=c.device)
        recent.index_copy_(1, last % window, c[:, 0].index_select(1, last))
        made = tuple(Entries.of(compress, u.squeeze(1), z.squeeze(1), capacity) for compress, u, z in streams)
        return cls(recent, made, n, capacity)

    def then(self, c: Tensor, streams: Sequence[Stream]) -> Self:
        """Append one token [b, 1, 1, D], in the same memory. Raises ValueError where the cache is full."""
        refuse_beyond(self.length + 1, self.capacity)
        self.recent[:, self.length % self.recent.shape[1]] = c[:, 0, 0]
        for held, (compress, u, z) in zip(self.entries, streams, strict=True):
            held.take(compress, u[:, 0, 0], z[:, 0, 0], self.length)
        return replace(self, length=self.length + 1)

    @property
    def tokens(self) -> Tensor:
        """Select the last tokens, [b, min(n, W), D], in no order."""
        return self.recent[:, : self.length]
