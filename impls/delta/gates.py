"""The inputs of the delta rules, made from raw projections: keys of length 1, strengths, log decays.

b batch, K heads of k and v, n tokens, G decays of a token: 1, or one for each row of the state.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

SLOWEST, FASTEST = 0.001, 0.1
"""Range of softplus(bias), within which biases are spread evenly in its logarithm."""


def unit(x: Tensor) -> Tensor:
    """Compute x / |x|: a key longer than 1 can make the delta rule diverge."""
    return F.normalize(x, dim=-1)


def strength(x: Tensor) -> Tensor:
    """Compute β = σ(x): [b, K, n, 1] -> [b, K, n]."""
    return x.sigmoid().squeeze(-1)


@dataclass(frozen=True)
class Pace:
    """Constants of a layer that set how fast its state decays by default: rates [K, 1, 1] and biases [K, 1, G].

    Rates A lie between 1 and 16, and softplus(bias) between 0.001 and 0.1, as such layers are initialised (Dao and Gu 2024,
    arXiv:2405.21060, whose gate arXiv:2412.06464 and arXiv:2510.26692 adopt).
    """

    rates: Tensor
    biases: Tensor

    @classmethod
    def of(cls, rates: Tensor, biases: Tensor) -> Self:
        """Place both within their ranges, given shares in (0, 1)."""
        steps = SLOWEST * (FASTEST / SLOWEST) ** biases
        # the inverse of softplus
        return cls(1 + 15 * rates, steps + (-(-steps).expm1()).log())

    @classmethod
    def drawn(cls, heads: int, width: int, generator: torch.Generator) -> Self:
        """Draw for each head and channel at random, in float64."""
        biases = _uniform((heads, 1, width), generator)
        return cls.of(_uniform((heads, 1, 1), generator), biases)

    @classmethod
    def even(cls, heads: int, x: Tensor) -> Self:
        """Spread rates over the heads, and biases over the channels or, with one channel, the heads; x [b, K, n, G]."""
        by_head, width = _spread(heads, x).view(-1, 1, 1), x.shape[-1]
        return cls.of(by_head, _spread(width, x).expand(heads, 1, -1) if width > 1 else by_head)


def log_decay(x: Tensor, pace: Pace) -> Tensor:
    """Compute log α = -A softplus(x + bias) ≤ 0: [b, K, n, G] -> the same, in the dtype of x."""
    return (-pace.rates * F.softplus(x.to(pace.biases.dtype) + pace.biases)).to(x.dtype)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)


def _spread(count: int, x: Tensor) -> Tensor:
    """Compute the midpoints of `count` equal parts of (0, 1), in float32 at least."""
    parts = torch.arange(count, device=x.device, dtype=torch.promote_types(x.dtype, torch.float32))
    return (parts + 0.5) / count
