"""The dense mask of a pattern, for kernels that know no pattern.

H heads, N tokens.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from .band import Part
from .pattern import Pattern, Shape

_ROWS = 256
"""Number of queries whose indices are compared at a time: they are int64, eight times the size of the mask."""


@dataclass(frozen=True)
class DenseMask:
    """`seen`, bool [H or 1, N, N], True where a query may see a key; `blind`, bool [H or 1, N, 1], marks queries that see none.

    Kernels give NaN or 0 for a softmax over nothing, so in `seen` blind rows see all keys, and `cleared` sets their output to
    0. `blind` is None where there are none.
    """

    seen: Tensor
    blind: Tensor | None

    @classmethod
    def of(cls, pattern: Pattern, shape: Shape, device: torch.device) -> Self:
        """Build the mask of a pattern: N² bytes where all heads see the same, else H N²."""
        seen = _seen(pattern, shape, device)
        blind = _blind(seen)
        return cls(seen | blind, blind) if blind.any() else cls(seen, None)

    def within(self, key_mask: Tensor) -> "DenseMask":
        """Restrict the mask to the keys of key_mask, bool [B, N]: [B, H or 1, N, N] and [B, H or 1, N, 1]."""
        seen = self.seen & key_mask[:, None, None, :]
        if self.blind is not None:
            seen.masked_fill_(self.blind, value=False)
        blind = _blind(seen)
        return DenseMask(seen.logical_or_(blind), blind)

    def cleared(self, o: Tensor) -> Tensor:
        """Set the output [B, H, N, M], and with it the gradient, to 0 where a query sees nothing."""
        return o if self.blind is None else torch.where(self.blind, 0.0, o)


def _blind(seen: Tensor) -> Tensor:
    """Mark rows without keys; in memory queries come before heads, because a cleared output takes this layout."""
    return seen.any(-1, keepdim=True).logical_not_().transpose(-3, -2).contiguous().transpose(-3, -2)


def heads_of_mask(pattern: Pattern, shape: Shape) -> int:
    """Return 1 where all heads see the same, else H."""
    return 1 if len({_kind(part, start) for part in pattern.parts(shape) for start in _starts(part)}) == 1 else shape.H


def _seen(pattern: Pattern, shape: Shape, device: torch.device) -> Tensor:
    heads = torch.arange(heads_of_mask(pattern, shape), device=device)[:, None, None]
    j = torch.arange(shape.N, device=device)
    mask = torch.empty(len(heads), shape.N, shape.N, dtype=torch.bool, device=device)
    for i, rows in zip(j.unsqueeze(1).split(_ROWS), mask.split(_ROWS, dim=1), strict=True):
        rows.copy_(pattern.sees(shape, i, j, heads))
        if shape.causal:
            rows.logical_and_(j <= i)
    return mask


def _kind(part: Part, start: int | None) -> tuple[object, int | None]:
    return part.bands, start


def _starts(part: Part) -> tuple[int | None, ...]:
    return (None,) if part.summary is None else part.summary.starts
