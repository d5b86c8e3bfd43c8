"""The terms that are added to the logits of windows to hide keys.

B rows (batch and heads folded), R rounds, N tokens, C chunks of m slots in a row, L chunks of queries at once, S slots of a
window. Hiding uses differences of small whole numbers in floating point, several times as fast as comparing and selecting.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .counts import Counts
from .ring import Ring, Slots, Stretch

HIDDEN = 2.0**100
"""What, or at least half of which, is subtracted from the logit of a hidden key.

As a power of two it keeps whole numbers up to 2^23 exact in float32.
"""

SEES_NOTHING = -HIDDEN / 4
"""Bound below which the logsumexp of a query is if all its keys are hidden; it is finite, so no NaN arises."""


@dataclass(frozen=True)
class Hiding:
    """The keys of its window that a query does not see: itself; later positions if `causal`; other buckets unless `across`.

    `corrected`: lower keys by the logarithm of how often the pair meets in all rounds.
    """

    ring: Ring
    causal: bool
    across: bool
    corrected: bool


class Bias:
    """The biases of some rows, from their sorted buckets [B, R, N], which may be None where they hide nothing."""

    def __init__(self, hiding: Hiding, slots: Slots, buckets_BRN: Tensor | None, dtype: torch.dtype) -> None:
        self.hiding, self.dtype = hiding, dtype
        self.position = self._far_apart(slots.arranged(slots.order))
        self.bucket = None if hiding.across or buckets_BRN is None else self._far_apart(slots.arranged(buckets_BRN))
        self.counts = Counts(slots, None if hiding.across else buckets_BRN, dtype) if hiding.corrected else None
        self.empty = _empty(slots, dtype) if hiding.ring.empty else None

    def write(self, out: Tensor, part: Stretch) -> None:
        """Write what hides more than the token itself into [L, m, S]; does nothing if `is_plain`."""
        if self.is_plain:
            return
        own, near = self._pairs(part, self.position)
        if self.hiding.causal:
            torch.sub(own - HIDDEN / 2, near, out=out).clamp_(max=0)
        else:
            torch.sub(own, near, out=out).abs_().sub_(HIDDEN / 2).clamp_(max=0)
        if self.bucket is not None:
            own, near = self._pairs(part, self.bucket)
            out.sub_((own - near).abs_())
        if self.counts is not None:
            out.sub_(self.counts.times_met(part).log2_())
        if self.empty is not None:
            out.add_(part.around(self.empty).unsqueeze(1))

    def hide_self_(self, scores: Tensor, part: Stretch) -> None:
        """Hide the token itself if `is_plain`: it has one place in its own chunk, and any place in a chunk of another round."""
        if not self.is_plain:
            return
        m = self.hiding.ring.m
        scores.diagonal(m, -2, -1).fill_(-HIDDEN)
        for i in _ends(part, self.hiding.ring):
            own, near = part.own(self.position)[i].unsqueeze(-1), part.around(self.position)[i].unsqueeze(-2)
            scores[i] += (own - near).abs_().sub_(HIDDEN / 2).clamp_(max=0)

    @property
    def is_plain(self) -> bool:
        """Say whether only the token itself is hidden, for which `hide_self_` suffices."""
        return not self.hiding.causal and not any(x is not None for x in (self.bucket, self.counts, self.empty))

    def _pairs(self, part: Stretch, x: Tensor) -> tuple[Tensor, Tensor]:
        return part.own(x).unsqueeze(-1), part.around(x).unsqueeze(-2)

    def _far_apart(self, numbers: Tensor) -> Tensor:
        return numbers.to(self.dtype).mul_(HIDDEN)


def _ends(part: Stretch, ring: Ring) -> list[int]:
    """List the chunks whose windows reach into another round, where the token itself may be, or into their own chunk twice."""
    if ring.rounds == 1 and ring.chunks > 1:
        return []
    turned = {1 % ring.chunks, 0} if ring.after else {1 % ring.chunks}
    return [i for i, t in enumerate(part.chunks) if t % ring.C % ring.chunks in turned]


def _empty(slots: Slots, dtype: torch.dtype) -> Tensor:
    """Compute -HIDDEN where a slot is empty, [B C, m]."""
    ring = slots.ring
    x = torch.zeros(len(slots.order) * ring.C, ring.m, dtype=dtype, device=slots.order.device)
    slots.last_of_rounds(x)[..., ring.m - ring.empty :] = -HIDDEN
    return x
