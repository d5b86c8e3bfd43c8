"""The state of decoding in segments: the current segment and the memory before it.

b batch, K heads of k and v, L tokens of a segment, W = memory + L, D query/key width, M value width.
"""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from ..partial.cache import refuse_beyond
from .eager.segments import Segments


@dataclass(frozen=True)
class SegmentCache:
    """Keys [b, K, W, D] and values [b, K, W, M] of the last tokens: token l of the current segment is at memory + l.

    `length` tokens have been seen. When a segment is full, its end moves to the front, which costs memory / L tokens a step on
    average.
    """

    k: Tensor
    v: Tensor
    length: int
    segments: Segments
    """How all tokens that there is room for are cut into segments."""

    @classmethod
    def of(cls, k: Tensor, v: Tensor, segments: Segments) -> Self:
        """Start a cache with tokens [b, K, n, D] and [b, K, n, M]. Raises ValueError where they do not fit."""
        n = k.shape[2]
        refuse_beyond(n, segments.N)
        return cls(_last_window(k, segments), _last_window(v, segments), n, segments)

    def then(self, k: Tensor, v: Tensor) -> Self:
        """Append one token, [b, K, 1, D] and [b, K, 1, M], in the same memory. Raises ValueError where the cache is full."""
        refuse_beyond(self.length + 1, self.segments.N)
        within = self.length % self.segments.L
        for buffer, x in ((self.k, k), (self.v, v)):
            if self.length and not within:
                _slide(buffer, self.segments)
            buffer[:, :, self.segments.memory + within] = x[:, :, 0].detach()
        return replace(self, length=self.length + 1)

    @property
    def keys(self) -> Tensor:
        """Select the keys that the last token sees: [b, K, seen, D], a view."""
        return self.k[:, :, self._seen()]

    @property
    def values(self) -> Tensor:
        """Select their values: [b, K, seen, M], a view."""
        return self.v[:, :, self._seen()]

    def _seen(self) -> slice:
        last = self.length - 1
        stop = self.segments.memory + last % self.segments.L + 1
        return slice(stop - self.segments.seen(last), stop)


def _last_window(x: Tensor, segments: Segments) -> Tensor:
    """Copy the last segment and its memory: [b, K, n, C] -> [b, K, W, C], where the rest is not yet written."""
    n, buffer = x.shape[2], x.new_empty(*x.shape[:2], segments.width, x.shape[3])
    if n:
        stop = segments.memory + (n - 1) % segments.L + 1
        seen = segments.seen(n - 1)
        buffer[:, :, stop - seen : stop] = x[:, :, n - seen :].detach()
    return buffer


def _slide(buffer: Tensor, segments: Segments) -> None:
    """Move the last `memory` tokens to the front, in pieces that do not overlap."""
    for start in range(0, segments.memory, segments.L):
        stop = min(start + segments.L, segments.memory)
        buffer[:, :, start:stop] = buffer[:, :, start + segments.L : stop + segments.L]
