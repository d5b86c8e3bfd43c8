"""Rows whose rounds are attended together, and the scores of a few of their chunks.

B rows (batch and heads folded), whose tokens are numbered through; R rounds, N tokens, D query/key width, M value width; C
chunks of m slots in a row, L chunks of queries at once, S slots of a window (eager/ring.py).

Scores are logits in units of log 2: exp2 takes the same time for any number, while MKL's exp is twenty times slower where the
result is 0, as for every hidden key.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ...partial.softmax import sums
from .hiding import Bias, Hiding
from .ring import Slots, Stretch

ROWS = 2**14
"""Number of slots of the rows walked together on a CPU, or of one row: enough that calls are few."""

AT_ONCE = 2**12
"""Number of slots of queries attended at once on a CPU: their tiles stay in its cache."""

TAME = 30.0
"""Greatest score for which no maximum is subtracted: sums of 2^30 and products of 2^60 are well within float32."""

_NORM_EPS = 1e-12


@dataclass(frozen=True)
class Sorted:
    """Positions in sorted order, int32 [B, R, N], and their buckets if other buckets are hidden."""

    order: Tensor
    buckets: Tensor | None = None


@dataclass(frozen=True)
class Terms:
    """The keys that are hidden from each query, and the scale of the logits."""

    hiding: Hiding
    scale: float


@dataclass(frozen=True)
class Rows:
    """Some rows, and what is hidden in them."""

    slots: Slots
    bias: Bias
    scale: float
    dtype: torch.dtype

    def tokens(self, x: Tensor) -> Tensor:
        """Flatten [B, N, M] -> [B N, M] in the dtype of the computation."""
        return x.flatten(0, 1).to(self.dtype)

    def empty(self, *widths: int) -> Tensor:
        """Allocate memory for each slot: [B C, m, ...]."""
        return torch.empty(*self.slots.tokens.shape, *widths, dtype=self.dtype, device=self.slots.order.device)

    @cached_property
    def stretches(self) -> list[Stretch]:
        """List the stretches of queries that are attended at once."""
        return list(self.slots.stretches(max(1, room(self.slots.order, AT_ONCE) // self.slots.ring.m)))

    def tiles(self) -> Tensor:
        """Allocate memory for the scores of the longest stretch, [L, m, S]."""
        ring, L = self.slots.ring, max(len(s.chunks) for s in self.stretches)
        return torch.empty(L, ring.m, ring.near * ring.m, dtype=self.dtype, device=self.slots.order.device)

    def scores(self, part: Stretch, q: Tensor, k: Tensor, out: Tensor) -> Tensor:
        """Compute the scores [L, m, S] of a stretch in units of log 2, with the biases that hide keys."""
        out = out[: len(part.chunks)]
        self.bias.write(out, part)
        out.baddbmm_(q, k.mT, beta=float(not self.bias.is_plain), alpha=self.scale / math.log(2))
        self.bias.hide_self_(out, part)
        return out


def rows_together(qk: Tensor, given: Sorted, terms: Terms) -> Iterator[tuple[slice, Rows]]:
    """Go through all rows of qk [B, N, D], some at a time."""
    ring, dtype = terms.hiding.ring, sums(qk.dtype)
    step = max(1, room(qk, ROWS) // (ring.C * ring.m))
    for rows in (slice(a, a + step) for a in range(0, len(qk), step)):
        slots = Slots(ring, given.order[rows])
        bias = Bias(terms.hiding, slots, None if given.buckets is None else given.buckets[rows], dtype)
        yield rows, Rows(slots, bias, terms.scale, dtype)


@dataclass(frozen=True)
class Shared:
    """Queries [B N, D], the inverses of their norms [B N, 1], which make keys of them, and whether all scores are small."""

    qk: Tensor
    inverse: Tensor
    tame: bool

    def gather(self, part: Stretch) -> tuple[Tensor, Tensor]:
        """Gather the queries [L, m, D] of a stretch and the keys of their windows, overlapping, [L, S, D]."""
        both = part.gather_reach(self.qk)
        return part.own_of_reach(both), part.windows(both * part.gather_reach(self.inverse))


def shared(qk: Tensor, scale: float) -> Shared:
    """Compute norms of queries [B N, D], as torch.nn.functional.normalize does."""
    norm = qk.norm(dim=-1, keepdim=True)
    # |q·k̂| <= ‖q‖
    tame = bool(norm.amax() * (scale / math.log(2)) <= TAME)
    return Shared(qk, norm.clamp_min_(_NORM_EPS).reciprocal_(), tame)


def room(x: Tensor, slots: int) -> int:
    """Scale a CPU's number of slots to the device of x; a GPU takes 64 times as many."""
    return slots if x.device.type == "cpu" else 64 * slots
