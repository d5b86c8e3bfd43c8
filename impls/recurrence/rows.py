"""Some rows of the inputs, and how they are walked part by part.

X rows (batch and heads of k and v folded), R heads of q for each, N tokens, S chunks of L tokens, D query/key width, M value
width; G = 1 or D decays.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from .decay import FACTORED, Decay
from .factored import Factored
from .parts import Part, dense, groups, parts, room, sums
from .segment import Segment


@dataclass(frozen=True)
class Rows:
    """Inputs of some rows: q [X, R, N, D], k [X, 1, N, D], v [X, 1, N, M], log decays [X, 1, N or 1, G], or None."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor | None
    scale: float
    chunk: int

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the tensors in the order of the call."""
        return self.q, self.k, self.v, self.log_decay

    @property
    def decays_by_token(self) -> bool:
        """Say whether each token has its own decay."""
        return self.log_decay is not None and self.log_decay.shape[2] == self.q.shape[2]

    def groups(self) -> Iterator[tuple[slice, Self]]:
        """Go through the groups of rows that are walked together, as views."""
        for some in groups(self.q):
            log_decay = None if self.log_decay is None else self.log_decay[some]
            yield some, replace(self, q=self.q[some], k=self.k[some], v=self.v[some], log_decay=log_decay)

    @property
    def parts(self) -> list[Part]:
        """Cut the tokens into parts, from the first to the last."""
        return parts(self.q, self.v.shape[-1], self.chunk)

    def segment(self, part: Part) -> Segment | Factored:
        """Build the products of a part, in the dtype of sums, in the way that its decays allow."""
        kind, (q, k) = sums(self.q.dtype), (part.of(x) for x in (self.q, self.k))
        v, decay = dense(part.of(self.v), kind), self._decay(part)
        if decay is None or decay.loses_over(FACTORED):
            q, k = dense(q, kind), dense(k, kind)
            return Factored(q, k, v, None) if decay is None else Segment(q, k, v, decay)
        left = decay.c.exp().to(kind)
        shared = left.unsqueeze(2)
        q, k = torch.mul(q, shared, out=room(q, kind)), torch.div(k, shared, out=room(k, kind))
        return Factored(q.flatten(2, 3), k.flatten(2, 3), v, left)

    def _decay(self, part: Part) -> Decay | None:
        if self.log_decay is None:
            return None
        if self.decays_by_token:
            return Decay.of(part.of(self.log_decay).flatten(2, 3).to(sums(self.q.dtype)))
        return self._constant[part.L]

    @cached_property
    def _constant(self) -> dict[int, Decay]:
        """Compute the decays of constant rates by the length of a chunk, of which there are two at most."""
        assert self.log_decay is not None
        log_decay = self.log_decay.double().transpose(0, 1)
        return {part.L: Decay(log_decay * _counted(part.L, log_decay), sums(self.q.dtype)) for part in self.parts}


def _counted(L: int, like: Tensor) -> Tensor:
    """Return the numbers 1 … L as a column, [L, 1]."""
    return torch.arange(1, L + 1, dtype=like.dtype, device=like.device).unsqueeze(-1)
