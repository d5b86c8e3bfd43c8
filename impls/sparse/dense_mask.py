"""The dense mask of a pattern, as one hands it to a kernel that knows no pattern.

H heads, N tokens.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from .band import Part
from .pattern import Pattern, Shape

_ROWS = 256
"""Queries whose indices are compared at a time: they are int64, eight times the mask."""


@dataclass(frozen=True)
class DenseMask:
    """`seen`, bool [H or 1, N, N], True where a query may see a key. Queries that see none are in `blind`, bool [H or 1, N, 1].

    A kernel's softmax over nothing is NaN in one place and 0 in another: in `seen` these rows see all keys, and the output is
    for `cleared` to clear. `blind` is None where there are none.
    """

    seen: Tensor
    blind: Tensor | None

    @classmethod
    def of(cls, pattern: Pattern, shape: Shape, device: torch.device) -> Self:
        """Of a pattern: N² bytes where all heads see the same, else H N²."""
        seen = _seen(pattern, shape, device)
        blind = _blind(seen)
        return cls(seen | blind, blind) if blind.any() else cls(seen, None)

    def within(self, key_mask: Tensor) -> "DenseMask":
        """With only the keys of key_mask, bool [B, N]: [B, H or 1, N, N] and [B, H or 1, N, 1]."""
        seen = self.seen & key_mask[:, None, None, :]
        if self.blind is not None:
            seen.masked_fill_(self.blind, value=False)
        blind = _blind(seen)
        return DenseMask(seen.logical_or_(blind), blind)

    def cleared(self, o: Tensor) -> Tensor:
        """[B, H, N, M], 0 where a query sees nothing; so is what it sends back."""
        return o if self.blind is None else torch.where(self.blind, 0.0, o)


def _blind(seen: Tensor) -> Tensor:
    """Rows of nothing; in memory queries before heads, for a cleared output takes its layout from here."""
    return seen.any(-1, keepdim=True).logical_not_().transpose(-3, -2).contiguous().transpose(-3, -2)


def heads_of_mask(pattern: Pattern, shape: Shape) -> int:
    """1 where all heads see the same, else H."""
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
