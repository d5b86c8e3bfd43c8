"""The number of times that a query and a key meet in all rounds together, so that each pair can count once.

B rows (batch and heads folded), R rounds, N tokens, L chunks of m queries at once, S slots of a window. Whole numbers in
floating point: indicators are clamped differences, several times as fast as comparisons.
"""

import torch
from torch import Tensor

from .ring import Slots, Stretch


class Counts:
    """Counts for some rows; given their sorted buckets [B, R, N], only slots of the query's own bucket count."""

    def __init__(self, slots: Slots, buckets_BRN: Tensor | None, dtype: torch.dtype) -> None:
        self.ring, order = slots.ring, slots.order.long()
        chunk_of_rank = torch.arange(self.ring.N, device=order.device) // self.ring.m
        self.chunk_NR = _by_token(order, chunk_of_rank.expand_as(order)).to(dtype)
        # in one round, a pair from different buckets is hidden anyway; in several, no pair of one bucket meets over the ends
        apart = buckets_BRN is not None and self.ring.rounds > 1
        self.bucket_NR = _by_token(order, buckets_BRN).to(dtype) if apart and buckets_BRN is not None else None

    def times_met(self, part: Stretch) -> Tensor:
        """Count the key's slots in windows of the query, in all rounds together: [L, m, S]; 1 where there is none."""
        met = self._over_ends(part) if self.bucket_NR is None else 0
        for r in range(self.ring.rounds):
            met = self._within(part, r).add_(met)
        assert isinstance(met, Tensor)
        return met.clamp_(min=1)

    def _within(self, part: Stretch, r: int) -> Tensor:
        """Mark with 1 where the key's chunk is near the query's in one round, not over its ends: [L, m, S]."""
        # distances are 1/2 to the own chunk and the one before; or 0 to the own and 1 to both neighbours
        shift = 0.0 if self.ring.after else 0.5
        far = _distance(part, self.chunk_NR[:, r], shift)
        if self.bucket_NR is not None:
            far.add_(_distance(part, self.bucket_NR[:, r]), alpha=2)
        return far.neg_().add_(2 - shift).clamp_(0, 1)

    def _over_ends(self, part: Stretch) -> Tensor:
        """Count meetings over the ends of rounds: one token in a first chunk, the other in the last of the round before."""
        # a product of indicators over rounds is a count
        in_first, in_last = ((self.chunk_NR == end).to(self.chunk_NR.dtype) for end in (0, self.ring.chunks - 1))
        met = part.gather(in_first) @ part.gather_around(in_last.roll(1, -1)).mT
        if self.ring.after:
            met += part.gather(in_last) @ part.gather_around(in_first.roll(-1, -1)).mT
        return met


def _distance(part: Stretch, x: Tensor, shift: float = 0.0) -> Tensor:
    own, near = part.gather(x), part.gather_around(x)
    return ((own - shift).unsqueeze(-1) - near.unsqueeze(-2)).abs_()


def _by_token(order_BRN: Tensor, x_BRN: Tensor) -> Tensor:
    """Undo the sorted order: [B, R, N] -> [B N, R]."""
    B, R, N = order_BRN.shape
    out = torch.empty(B, N, R, dtype=x_BRN.dtype, device=x_BRN.device)
    out.mT.scatter_(2, order_BRN, x_BRN)
    return out.flatten(0, 1)
