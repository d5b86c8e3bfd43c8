"""The state of decoding with spans: the last keys and values, as many as the longest span reaches.

b batch, K heads of k and v, w tokens kept, D query/key width, M value width.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from ..partial.cache import refuse_beyond


@dataclass(frozen=True)
class SpanRing:
    """Keys [b, K, w, D] and values [b, K, w, M] of the last w of `length` tokens: token t is in slot t mod w."""

    k: Tensor
    v: Tensor
    length: int
    capacity: int
    """Greatest number of tokens in all."""

    @classmethod
    def of(cls, k: Tensor, v: Tensor, w: int, capacity: int) -> Self:
        """Start a ring with tokens [b, K, n, D] and [b, K, n, M]. Raises ValueError where they exceed the capacity."""
        refuse_beyond(k.shape[2], capacity)
        return cls(_last(k, w), _last(v, w), k.shape[2], capacity)

    def then(self, k: Tensor, v: Tensor) -> Self:
        """Append one token, [b, K, 1, D] and [b, K, 1, M], in the same memory. Raises ValueError where full."""
        refuse_beyond(self.length + 1, self.capacity)
        slot = self.length % self.k.shape[2]
        self.k[:, :, slot], self.v[:, :, slot] = k[:, :, 0].detach(), v[:, :, 0].detach()
        return replace(self, length=self.length + 1)

    @property
    def kept(self) -> int:
        """Count the slots in use."""
        return min(self.length, self.k.shape[2])

    def distances(self) -> Tensor:
        """Compute the distance from the last token back to each slot in use: int64 [kept]."""
        return (self.length - 1 - torch.arange(self.kept, device=self.k.device)) % self.k.shape[2]


def _last(x: Tensor, w: int) -> Tensor:
    """Put the last w tokens into their slots: [b, K, n, C] -> [b, K, w, C]."""
    n, ring = x.shape[2], x.new_empty(*x.shape[:2], w, x.shape[3])
    if n <= w:
        ring[:, :, :n] = x.detach()
        return ring
    # token n - w goes to slot n mod w
    return ring.copy_(x[:, :, n - w :].detach().roll(n % w, dims=2))
