"""How much of what was written at one token is left at a later one of the same chunk, or at its end.

X rows (batch and heads folded), S chunks of L tokens, D key width; G = D decays of a token (one for each row of the state), or
G = 1 (one for all). With c the sum of log decays from the chunk's start to a token, its own included, exp(c_i - c_j) is left at
token i of what token j wrote. Only differences of at most 0 are exponentiated, so nothing overflows however fast it decays:
exp(-c) alone passes float32 after 88 nats.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SUB = 16
"""Tokens of a sub-chunk; within it, decays that differ by row of the state are taken pair by pair."""


@dataclass(frozen=True)
class Decay:
    """From log decays of at most 0; by `Decay.of`."""

    c: Tensor
    """[X, S, L, G]."""

    @classmethod
    def of(cls, log_decay: Tensor) -> "Decay":
        """Log decays [X, S, L, G], at most 0."""
        return cls(log_decay.cumsum(2))

    def pairs(self, q: Tensor, k: Tensor, *, strict: bool = False) -> Tensor:
        """Σ_d q_id k_jd exp(c_id - c_jd) for j <= i (`strict`: j < i), else 0: [X, S, L, D] twice -> [X, S, L, L]."""
        scores = self._by_token(q, k) if self.c.shape[-1] == 1 else self._by_row(q, k)
        return scores.tril(-1 if strict else 0)

    def read(self, q: Tensor) -> Tensor:
        """q exp(c): what is left, at each token, of the state at the chunk's start. [X, S, L, D]."""
        return q * self.c.exp()

    def write(self, k: Tensor) -> Tensor:
        """k exp(c_L - c): what is left at the chunk's end of what each token writes. [X, S, L, D]."""
        return k * (self.c[:, :, -1:] - self.c).exp()

    @property
    def carry(self) -> Tensor:
        """exp(c_L): what is left at the chunk's end of the state at its start, by row of the state. [X, S, G, 1]."""
        return self.c[:, :, -1].exp().unsqueeze(-1)

    def _by_token(self, q: Tensor, k: Tensor) -> Tensor:
        # above the diagonal the difference is positive, and cut off later
        left = (self.c - self.c.mT).clamp(max=0).exp()
        return (q @ k.mT) * left

    def _by_row(self, q: Tensor, k: Tensor) -> Tensor:
        """Sub-chunk by sub-chunk: to earlier ones through the decay up to the query's sub-chunk, which splits into factors."""
        L, parts = q.shape[2], []
        for a in range(0, L, SUB):
            rows = slice(a, min(L, a + SUB))
            q_part, c_part = q[:, :, rows], self.c[:, :, rows]
            own = _pair_by_pair(q_part, k[:, :, rows], c_part)
            parts.append(own if a == 0 else torch.cat((self._earlier(q_part, c_part, k, a), own), -1))
        return torch.cat([torch.nn.functional.pad(part, (0, L - part.shape[-1])) for part in parts], 2)

    def _earlier(self, q_part: Tensor, c_part: Tensor, k: Tensor, a: int) -> Tensor:
        """From the tokens before a: [X, S, ·, a]."""
        border = self.c[:, :, a - 1 : a]
        return (q_part * (c_part - border).exp()) @ (k[:, :, :a] * (border - self.c[:, :, :a]).exp()).mT


def _pair_by_pair(q: Tensor, k: Tensor, c: Tensor) -> Tensor:
    left = (c.unsqueeze(3) - c.unsqueeze(2)).clamp(max=0).exp()
    return torch.einsum("xsid,xsjd,xsijd->xsij", q, k, left)


@dataclass(frozen=True)
class NoDecay:
    """Nothing is ever lost: the same questions as `Decay` answers, for log decays of 0."""

    def pairs(self, q: Tensor, k: Tensor, *, strict: bool = False) -> Tensor:
        """Σ_d q_id k_jd for j <= i (`strict`: j < i), else 0."""
        return (q @ k.mT).tril(-1 if strict else 0)

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
