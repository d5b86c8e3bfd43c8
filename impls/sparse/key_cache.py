"""All keys and values, preallocated, for what may need any of them.

b batch, K heads of k and v, n tokens, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Self

from torch import Tensor


@dataclass(frozen=True)
class KeyCache:
    """Keys and values of the first `length` tokens: k [b, K, capacity, D], v [b, K, capacity, M]."""

    k: Tensor
    v: Tensor
    length: int

    @classmethod
    def of(cls, k: Tensor, v: Tensor, capacity: int) -> Self:
        """A cache that starts with these tokens, [b, K, n, D] and [b, K, n, M]. Raises ValueError where they do not fit."""
        empty_k, empty_v = (x.new_empty(*x.shape[:2], capacity, x.shape[3]) for x in (k, v))
        return cls(_written(empty_k, k, 0), _written(empty_v, v, 0), k.shape[2])

    def then(self, k: Tensor, v: Tensor) -> Self:
        """The cache after one more token, [b, K, 1, D] and [b, K, 1, M], in the same memory. Raises ValueError where full."""
        return type(self)(_written(self.k, k, self.length), _written(self.v, v, self.length), self.length + 1)

    @property
    def keys(self) -> Tensor:
        """[b, K, length, D], a view."""
        return self.k[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """[b, K, length, M], a view."""
        return self.v[:, :, : self.length]


def _written(buffer: Tensor, x: Tensor, at: int) -> Tensor:
    n, capacity = x.shape[2], buffer.shape[2]
    if at + n > capacity:
        raise ValueError(f"token {at + n} is beyond the capacity of {capacity} tokens that prefill was given")
    buffer[:, :, at : at + n] = x.detach()
    return buffer
