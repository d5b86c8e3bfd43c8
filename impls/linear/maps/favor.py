"""The map of the Performer: positive random features of the softmax.

D query/key width, C = m number of random features, T tokens.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from .exponential import Exponential, nothing


class Favor(Exponential):
    """FAVOR+: positive orthogonal random features of the softmax (Choromanski et al. 2020, lemma 1 and section 2.4).

    E(k) = W k̂ - ‖k̂‖²/2 with x̂ = x / D^¼, and φ(q) = exp(W q̂ - max_m W_m·q̂): the expectation of exp(E(q) + E(k)) over W is
    exp(q·k / √D). Ours differs from the paper: factors of a query cancel in the quotient, so those of its norm and 1 / m are
    left out; the keys' stabiliser is the largest E so far (of all keys, without a mask) and never that of a later key; nothing
    is added to the features. W stays in float32 whatever the inputs.
    """

    eps = 1e-30
    """Default eps, which only has to prevent 0 / 0.

    Denominators are sums of positive numbers that fall exponentially as q and k grow. It is not the smallest number there is,
    because gradients are divided by it and must be finite in float32.
    """

    def __init__(self, D: int, features: int) -> None:
        super().__init__()
        self.register_buffer("projection", orthogonal_gaussian(features, D) * D**-0.25)

    projection: Tensor
    """W / D^¼, [C, D]."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # .to(dtype) moves W and never rounds it, so that all dtypes of a comparison share one W
        super()._apply(lambda x: x.to(fn(x).device), recurse)  # type: ignore[no-untyped-call]
        return self

    def width(self, D: int) -> int:  # noqa: ARG002 - as many as were drawn
        """Return C = m."""
        return self.projection.shape[0]

    def scales(self, C: int) -> int:  # noqa: ARG002 - whatever the number
        """Return 1: one scale for each head."""
        return 1

    def forward(self, x: Tensor) -> Tensor:
        """Compute φ(q), with the maximum as a constant."""
        projected = x @ self._scaled(x)
        return (projected - projected.detach().amax(-1, keepdim=True)).exp()

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(q) in place."""
        projected = x @ self._scaled(x)
        return projected.sub_(projected.amax(-1, keepdim=True)).exp_()

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:
        """Compute dL/dq = Wᵀ (φ dφ) / D^¼."""
        return dphi.mul_(phi) @ self._scaled(x).mT

    def logs(self, k: Tensor) -> Tensor:
        """Compute E(k)."""
        return k @ self._scaled(k) - k.square().sum(-1, keepdim=True) / (2 * math.sqrt(k.shape[-1]))

    def pull_back_logs(self, k: Tensor, dlogs: Tensor) -> Tensor:
        """Compute dL/dk = Wᵀ dE / D^¼ - Σ_m dE_m k / √D."""
        total = dlogs.sum(-1, keepdim=True).div_(math.sqrt(k.shape[-1]))
        return (dlogs @ self._scaled(k).mT).sub_(k * total)

    def running(self, logs: Tensor) -> Tensor:
        """Find the largest E so far."""
        return logs.amax(-1, keepdim=True).cummax(-2).values

    def total(self, logs: Tensor) -> Tensor:
        """Find the largest E."""
        return logs.amax((-2, -1), keepdim=True)

    def join(self, c: Tensor, d: Tensor) -> Tensor:
        """Return the larger scale."""
        return torch.maximum(c, d)

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute similarities [n, D], [N, D], bool [n, N] -> [n, N], together for queries with the same largest visible E."""
        logs, features = self.logs(k), self(q)
        largest = logs.detach().amax(-1).masked_fill(~seen, nothing(k.dtype)).amax(-1)
        found = logs.new_zeros(seen.shape)
        for c in largest.unique():
            mine = (largest == c).nonzero().squeeze(1)
            found = found.index_copy(0, mine, features[mine] @ (logs - c).clamp(max=0).exp().mT)
        return found * seen

    def flops(self, D: int) -> tuple[float, float]:
        """Count the FLOPs of the projection, and of its transpose."""
        return (2.0 * D * self.projection.shape[0],) * 2

    def _scaled(self, x: Tensor) -> Tensor:
        """Return Wᵀ / D^¼, [D, C], in the dtype of x."""
        return self.projection.to(x.dtype).mT


def orthogonal_gaussian(rows: int, D: int) -> Tensor:
    """Draw rows of N(0, 1)^D, orthogonal within each block of D: [rows, D], from torch's global generator.

    Choromanski et al. 2020, section 2.4: directions are uniform on the sphere, lengths those of Gaussian vectors.
    """
    blocks = [_orthogonal(D) for _ in range(-(-rows // D))]
    lengths: Tensor = torch.randn(rows, D).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:rows] * lengths


def _orthogonal(D: int) -> Tensor:
    """Draw a uniformly random orthogonal matrix (Mezzadri 2007, section 5).

    The signs are those of R's diagonal: with LAPACK's own the first entry of the first direction is negative, and the estimate
    of exp(q·k / √D) biased.
    """
    directions, R = torch.linalg.qr(torch.randn(D, D))
    uniform: Tensor = (directions * R.diagonal().sign()).mT
    return uniform
