"""How much of what was written at one token is left at a later one of the same chunk, or at its end.

X rows (batch and heads folded), S chunks of L tokens, D query/key width, n blocks of b tokens; G = D decays of a token (one
for each row of the state), or G = 1 (one for all). With c the sum of log decays from the chunk's start to a token, its own
included, exp(c_i - c_j) is left at token i of what token j wrote. Every exponent is bounded, so nothing overflows however fast
it decays: exp(-c) alone passes float32 after 88 nats. Where much is lost c is float64: a gate that forgets all (-300 nats where
a document ends) stays in every later c of its chunk, and of a difference of two such sums float32 has but a few digits.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

FACTORED = 60.0
"""Nats lost within a block up to which exp(c_i - c_j) is a product of two factors: their product stays below 10^26."""
EXACT = 128.0
"""Nats lost within a chunk up to which differences of their sums in float32 are exact to 10^-5."""
NOTHING = -80.0
"""Nats at which what is left counts as nothing, 10^-35: the denormal numbers below are a hundred times slower."""


@dataclass(frozen=True)
class Decay:
    """From finite log decays of at most 0; by `Decay.of`, or from sums that are the same in all chunks: S = 1."""

    c: Tensor
    """[X, S, L, G], or [X, 1, L, G]; float64 where much is lost."""
    kind: torch.dtype
    """Of what is left."""

    @classmethod
    def of(cls, log_decay: Tensor) -> "Decay":
        """Log decays [X, S, L, G], at most 0, in the dtype of sums."""
        if log_decay.shape[-1] > 1:
            made = cls(log_decay.cumsum(2), log_decay.dtype)
            if made.most_lost <= EXACT:
                return made
        return cls(log_decay.cumsum(2, dtype=torch.float64), log_decay.dtype)

    @cached_property
    def most_lost(self) -> float:
        """Nats that a row of the state loses in a chunk; no bound is known on a GPU."""
        # to look would be to wait for a GPU, which could not be captured then
        return math.inf if self.c.is_cuda else -float(self.c[:, :, -1].detach().amin())

    def pairs(self, q: Tensor, k: Tensor, *, strict: bool = False) -> Tensor:
        """Σ_d q_id k_jd exp(c_id - c_jd) for j <= i (`strict`: j < i), else 0: [X, S, L, D] twice -> [X, S, L, L]."""
        scores = (q @ k.mT).mul_(self._pairs_left) if self.c.shape[-1] == 1 else self._by_row(q, k)
        return _lower(scores, -1) if strict else scores

    def read(self, q: Tensor) -> Tensor:
        """Of q, q exp(c): what is left, at each token, of the state at the chunk's start. [X, S, L, D]."""
        return q * left(self.c, self.kind)

    def write(self, k: Tensor) -> Tensor:
        """Of k, k exp(c_L - c): what is left at the chunk's end of what each token writes. [X, S, L, D]."""
        return k * left(self.c[:, :, -1:] - self.c, self.kind)

    @property
    def carry(self) -> Tensor:
        """exp(c_L): what is left at the chunk's end of the state at its start, by row of the state. [X, S, G, 1]."""
        return left(self.c[:, :, -1], self.kind).unsqueeze(-1)

    @cached_property
    def _pairs_left(self) -> Tensor:
        """exp(c_i - c_j) for j <= i, else 0, where G = 1: [X, S, L, L]."""
        c = self.c.to(self.kind) if self.most_lost <= EXACT else self.c
        # above the diagonal the difference is positive
        return _lower(left(c - c.mT, self.kind))

    def _by_row(self, q: Tensor, k: Tensor) -> Tensor:
        """Within blocks, then from the first to the second block of each pair of blocks, until one is left."""
        L = q.shape[2]
        power = 1 << (L - 1).bit_length()
        q, k, c = (_filled_up(x, power) for x in (q, k, self.c))
        b = _longest_block(c)
        scores = _within_blocks(q, k, c, b)
        for length in (b << i for i in range((power // b).bit_length() - 1)):
            scores = _joined(scores, _between_blocks(q, k, c, length))
        return scores[:, :, 0, :L, :L]


def left(nats: Tensor, kind: torch.dtype) -> Tensor:
    """The exponential of log decays summed up, between 10^-35 and 1."""
    return nats.to(kind).clamp(NOTHING, 0).exp_()


def _lower(x: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros above the diagonal; in place, which is five times faster, where autograd does not need x."""
    return x.tril(diagonal) if x.requires_grad else x.tril_(diagonal)


def _filled_up(x: Tensor, length: int) -> Tensor:
    """Tokens like the last one after it, so that sums of log decays fall no further: [X, S, L, ·] -> [X, S, length, ·]."""
    missing = length - x.shape[2]
    return torch.cat((x, x[:, :, -1:].expand(-1, -1, missing, -1)), 2) if missing else x


def _longest_block(c: Tensor) -> int:
    """The longest b = L, L / 2, ..., 1 that loses no more than FACTORED nats; c [X, S, L, G], L a power of two."""
    b = c.shape[2]
    if c.is_cuda:
        return 1
    while b > 1 and _most_lost(c.detach(), b) > FACTORED:
        b //= 2
    return b


def _most_lost(c: Tensor, b: int) -> float:
    return float((c[:, :, ::b] - c[:, :, b - 1 :: b]).amax())


def _within_blocks(q: Tensor, k: Tensor, c: Tensor, b: int) -> Tensor:
    """[X, S, n, b, b]. exp(c_i - c_j) = exp(c_i - r) exp(r - c_j), r halfway: it cancels, so that no gradient needs it."""
    q, k, c = (x.unflatten(2, (-1, b)) for x in (q, k, c))
    halfway = (c[:, :, :, :1] + c[:, :, :, -1:]).detach() / 2
    return _lower((q * (c - halfway).to(q.dtype).exp()) @ (k * (halfway - c).to(k.dtype).exp()).mT)


def _between_blocks(q: Tensor, k: Tensor, c: Tensor, b: int) -> Tensor:
    """[X, S, n / 2, b, b]: queries of every second block, keys of the one before, through the border; no exponent above 0."""
    late, c_late = (x.unflatten(2, (-1, 2, b))[:, :, :, 1] for x in (q, c))
    early, c_early = (x.unflatten(2, (-1, 2, b))[:, :, :, 0] for x in (k, c))
    border = c_early[:, :, :, -1:].detach()
    scores: Tensor = (late * left(c_late - border, q.dtype)) @ (early * left(border - c_early, k.dtype)).mT
    return scores


def _joined(own: Tensor, between: Tensor) -> Tensor:
    """Blocks of twice the length: [X, S, n, b, b] and [X, S, n / 2, b, b] -> [X, S, n / 2, 2b, 2b]."""
    first, second = own.unflatten(2, (-1, 2)).unbind(3)
    return torch.cat((F.pad(first, (0, first.shape[-1])), torch.cat((between, second), -1)), -2)


@dataclass(frozen=True)
class NoDecay:
    """Nothing is ever lost: the same questions as `Decay` answers, for log decays of 0."""

    def pairs(self, q: Tensor, k: Tensor, *, strict: bool = False) -> Tensor:
        """Σ_d q_id k_jd for j <= i (`strict`: j < i), else 0."""
        return _lower(q @ k.mT, -1 if strict else 0)

    def read(self, q: Tensor) -> Tensor:
        """Q itself."""
        return q

    def write(self, k: Tensor) -> Tensor:
        """K itself."""
        return k

    @property
    def carry(self) -> float:
        """All of it."""
        return 1.0
