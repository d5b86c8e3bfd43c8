"""The last keys and values, as many as the longest span reaches back to.

b batch, H heads, w tokens kept, D query/key width, M value width.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class SpanRing:
    """k [b, H, w, D] and v [b, H, w, M] of the first `length` tokens: token t is in slot t mod w."""

    k: Tensor
    v: Tensor
    length: int
    capacity: int
    """Tokens that may come in all."""

    @classmethod
    def of(cls, k: Tensor, v: Tensor, w: int, capacity: int) -> Self:
        """With these tokens, [b, H, n, D] and [b, H, n, M]. Raises ValueError where they are too many."""
        _refuse_beyond(k.shape[2], capacity)
        return cls(_last(k, w), _last(v, w), k.shape[2], capacity)

    def then(self, k: Tensor, v: Tensor) -> Self:
        """With one more token, [b, H, 1, D] and [b, H, 1, M], in the same memory. Raises ValueError where full."""
        _refuse_beyond(self.length + 1, self.capacity)
        slot = self.length % self.k.shape[2]
        self.k[:, :, slot], self.v[:, :, slot] = k[:, :, 0].detach(), v[:, :, 0].detach()
        return replace(self, length=self.length + 1)

    @property
    def kept(self) -> int:
        """Slots in use."""
        return min(self.length, self.k.shape[2])

    def distances(self) -> Tensor:
        """From the last token back to that of each slot in use: int64 [kept]."""
        return (self.length - 1 - torch.arange(self.kept, device=self.k.device)) % self.k.shape[2]


def _refuse_beyond(n: int, capacity: int) -> None:
    if n > capacity:
        raise ValueError(f"token {n} is beyond the capacity of {capacity} tokens that prefill was given")


def _last(x: Tensor, w: int) -> Tensor:
    """[b, H, n, C] -> [b, H, w, C]: the last w of them in their slots."""
    n, ring = x.shape[2], x.new_empty(*x.shape[:2], w, x.shape[3])
    if n <= w:
        ring[:, :, :n] = x.detach()
        return ring
    # token n - w goes to slot n mod w
    return ring.copy_(x[:, :, n - w :].detach().roll(n % w, dims=2))
