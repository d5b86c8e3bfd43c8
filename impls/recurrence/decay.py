"""The part of what one token wrote that is left at a later one of the same chunk, or at its end.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, n blocks of b
tokens; G = D decays of a token (one for each row of the state), or G = 1 (one for all). With c the sum of log decays from the
chunk's start to a token, its own included, exp(c_i - c_j) is left at token i of what token j wrote. Every exponent is bounded,
so nothing overflows however fast it decays, while exp(-c) alone exceeds float32 after 88 nats. c is float64 where G = 1, and by
row where much is lost: a gate that forgets everything (-300 nats where a document ends) is part of every later c of its chunk,
and float32 would leave few digits for differences.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from .heads import each_head, each_head_, lower_

FACTORED = 60.0
"""Nats lost within a block up to which exp(c_i - c_j) is a product of two factors: their product stays below 10^26."""
EXACT = 128.0
"""Nats lost within a chunk up to which differences of float32 sums are exact to 10^-5."""
NOTHING = -80.0
"""Log decay below which what is left is set to 10^-35, because denormal numbers are a hundred times slower."""


@dataclass(frozen=True)
class Decay:
    """The decays of chunks, by `Decay.of` from finite log decays of at most 0, or from sums that all chunks share (S = 1)."""

    c: Tensor
    """Sums of log decays [S, X, L, G], or [1, X, L, G]; float64 where G = 1 or much is lost."""
    kind: torch.dtype
    """Dtype of the factors that are left."""

    @classmethod
    def of(cls, log_decay: Tensor) -> "Decay":
        """Sum up log decays [S, X, L, G], at most 0, in the dtype of sums."""
        if log_decay.shape[-1] > 1:
            made = cls(log_decay.cumsum(2), log_decay.dtype)
            if not made.loses_over(EXACT):
                return made
        return cls(log_decay.cumsum(2, dtype=torch.float64), log_decay.dtype)

    def loses_over(self, nats: float) -> bool:
        """Say whether some row of the state loses more nats than these in a chunk; on a GPU always yes.

        It is a yes or no, and never the number: torch.compile would compile anew for every number that it meets.
        """
        # reading the values would synchronise the GPU and prevent capturing a graph
        return self.c.is_cuda or bool(self._most_lost > nats)

    @cached_property
    def _most_lost(self) -> Tensor:
        return -self.c[:, :, -1].detach().amin()

    @cached_property
    def factors(self) -> tuple[Tensor, Tensor] | None:
        """Compute exp(c - m) and exp(m - c) [S, X, L, G] with m = c_L / 2, or return None where they would not be finite.

        Their products are exp(c_i - c_j), and for j > i may be infinite.
        """
        if self.loses_over(2 * FACTORED):
            return None
        halfway = self.c[:, :, -1:] / 2
        return (self.c - halfway).exp().to(self.kind), (halfway - self.c).exp().to(self.kind)

    @property
    def half(self) -> Tensor:
        """Compute exp(c_L / 2), what is left of the state halfway through a chunk, by row of the state: [S, X, G, 1]."""
        return (self.c[:, :, -1] / 2).exp().to(self.kind).unsqueeze(-1)

    def pairs(self, q: Tensor, k: Tensor) -> Tensor:
        """Compute Σ_d q_id k_jd exp(c_id - c_jd) for j <= i, else 0: [S, X, R L, D], [S, X, L, D] -> [S, X, R L, L]."""
        return each_head_(q @ k.mT, self.pairs_left) if self.c.shape[-1] == 1 else self._by_row(q, k)

    def read(self, q: Tensor) -> Tensor:
        """Compute q exp(c), with what is left at each token of the state at the chunk's start: [S, X, R L, D]."""
        return each_head(q, left(self.c, self.kind))

    def write(self, k: Tensor) -> Tensor:
        """Compute k exp(c_L - c), with what is left at the chunk's end of what each token writes: [S, X, L, D]."""
        return k * left(self.c[:, :, -1:] - self.c, self.kind)

    @property
    def carry(self) -> Tensor:
        """Compute exp(c_L), what is left at the chunk's end of the state at its start, by row of the state: [S, X, G, 1]."""
        return left(self.c[:, :, -1], self.kind).unsqueeze(-1)

    @cached_property
    def pairs_left(self) -> Tensor:
        """Compute exp(c_i - c_j) for j <= i, else 0, where G = 1: [S, X, L, L]."""
        # above the diagonal the difference is positive
        return lower_(left(self.c - self.c.mT, self.kind))

    def _by_row(self, q: Tensor, k: Tensor) -> Tensor:
        """Score pairs within blocks, then between the two blocks of each pair of blocks, until one block is left."""
        L = k.shape[2]
        power = 1 << (L - 1).bit_length()
        q, k, c = (_filled_up(x.unflatten(2, (-1, L)), power) for x in (q, k, self.c))
        b = _longest_block(c)
        scores = _within_blocks(q, k, c, b)
        for length in (b << i for i in range((power // b).bit_length() - 1)):
            scores = _joined(scores, _between_blocks(q, k, c, length))
        return scores[:, :, 0, :, :L, :L].flatten(2, 3)


def left(nats: Tensor, kind: torch.dtype) -> Tensor:
    """Exponentiate sums of log decays, to between 10^-35 and 1."""
    return nats.to(kind).clamp(NOTHING, 0).exp_()


def _filled_up(x: Tensor, length: int) -> Tensor:
    """Repeat the last token, so that sums of log decays fall no further: [S, X, R, L, ·] -> [S, X, R, length, ·]."""
    missing = length - x.shape[3]
    return torch.cat((x, x[:, :, :, -1:].expand(-1, -1, -1, missing, -1)), 3) if missing else x


def _longest_block(c: Tensor) -> int:
    """Find the longest b = L, L / 2, ..., 1 that loses no more than FACTORED nats; c [..., L, G], L a power of two."""
    c, b = c.detach(), c.shape[-2]
    if c.is_cuda:
        return 1
    while b > 1 and bool((c[..., ::b, :] - c[..., b - 1 :: b, :]).amax() > FACTORED):
        b //= 2
    return b


def _within_blocks(q: Tensor, k: Tensor, c: Tensor, b: int) -> Tensor:
    """Score pairs within blocks, [S, X, n, R, b, b]: exp(c_i - c_j) = exp(c_i - r) exp(r - c_j), with r halfway.

    r cancels, so it needs no gradient.
    """
    q, k, c = (x.unflatten(3, (-1, b)).transpose(2, 3) for x in (q, k, c))
    halfway = (c[..., :1, :] + c[..., -1:, :]).detach() / 2
    scores = _met(q * (c - halfway).to(q.dtype).exp(), k * (halfway - c).to(k.dtype).exp())
    return scores.tril() if scores.requires_grad else scores.tril_()


def _between_blocks(q: Tensor, k: Tensor, c: Tensor, b: int) -> Tensor:
    """Score queries of every second block with keys of the block before, [S, X, n / 2, R, b, b], by way of the border.

    No exponent is above 0.
    """
    late, c_late = (x.unflatten(3, (-1, 2, b))[:, :, :, :, 1].transpose(2, 3) for x in (q, c))
    early, c_early = (x.unflatten(3, (-1, 2, b))[:, :, :, :, 0].transpose(2, 3) for x in (k, c))
    border = c_early[..., -1:, :].detach()
    return _met(late * left(c_late - border, q.dtype), early * left(border - c_early, k.dtype))


def _met(q: Tensor, k: Tensor) -> Tensor:
    """Compute q kᵀ in each block, of all heads in one product: [S, X, n, R, b, D], [S, X, n, 1, b, D] -> [S, X, n, R, b, b]."""
    scores: Tensor = (q.flatten(3, 4) @ k.flatten(3, 4).mT).unflatten(3, q.shape[3:5])
    return scores


def _joined(own: Tensor, between: Tensor) -> Tensor:
    """Join blocks to blocks of twice the length: [S, X, n, R, b, b] and [S, X, n / 2, R, b, b] -> [S, X, n / 2, R, 2b, 2b]."""
    first, second = own.unflatten(2, (-1, 2)).unbind(3)
    return torch.cat((F.pad(first, (0, first.shape[-1])), torch.cat((between, second), -1)), -2)
