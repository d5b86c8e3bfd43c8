"""The map of the Performer: positive random features of the softmax.

D query/key width, C = m number of random features, T tokens.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from .exponential import Exponential, nothing
from .feature_map import Room


class Favor(Exponential):
    """FAVOR+: positive orthogonal random features of the softmax (Choromanski et al. 2020, lemma 1 and section 2.4).

    E(k) = W k̂ - ‖k̂‖²/2 with x̂ = x / D^¼, and φ(q) = exp(W q̂ - max_m W_m·q̂): the expectation of exp(E(q) + E(k)) over W
    is exp(q·k / √D). What is ours: a factor of a query cancels in the quotient, so those of its norm and 1 / m are left out;
    the keys' stabiliser is the largest E so far (of all keys, without a mask) and never that of a later key; nothing is added
    to the features. W stays in float32 whatever the inputs.
    """

    eps = 1e-30
    """Denominators are sums of positive numbers that fall exponentially as q and k grow: eps has only to keep 0 / 0 away. It is
    not the smallest number there is, for a gradient that is divided by it has to be finite in float32."""

    def __init__(self, D: int, features: int) -> None:
        super().__init__()
        self.register_buffer("projection", orthogonal_gaussian(features, D) * D**-0.25)

    projection: Tensor
    """W / D^¼, [C, D]."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # .to(dtype) moves W and never rounds it: all dtypes of a comparison share one W
        super()._apply(lambda x: x.to(fn(x).device), recurse)  # type: ignore[no-untyped-call]
        return self

    def width(self, D: int) -> int:  # noqa: ARG002 - as many as were drawn
        """C = m."""
        return self.projection.shape[0]

    def scales(self, C: int) -> int:  # noqa: ARG002 - whatever the number
        """One for each head."""
        return 1

    def forward(self, x: Tensor) -> Tensor:
        """φ(q), the maximum being a constant."""
        projected = x @ self._scaled(x)
        return (projected - projected.detach().amax(-1, keepdim=True)).exp()

    def value(self, x: Tensor) -> Tensor:
        """The same in place."""
        projected = x @ self._scaled(x)
        return projected.sub_(projected.amax(-1, keepdim=True)).exp_()

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:
        """To the queries: Wᵀ (φ dφ) / D^¼."""
        return dphi.mul_(phi) @ self._scaled(x).mT

    def logs(self, k: Tensor) -> Tensor:
        """E(k)."""
        return k @ self._scaled(k) - k.square().sum(-1, keepdim=True) / (2 * math.sqrt(k.shape[-1]))

    def pull_back_logs(self, k: Tensor, dlogs: Tensor) -> Tensor:
        """To the keys: Wᵀ dE / D^¼ - Σ_m dE_m k / √D."""
        total = dlogs.sum(-1, keepdim=True).div_(math.sqrt(k.shape[-1]))
        return (dlogs @ self._scaled(k).mT).sub_(k * total)

    def running(self, logs: Tensor) -> Tensor:
        """The largest E so far."""
        return logs.amax(-1, keepdim=True).cummax(-2).values

    def total(self, logs: Tensor) -> Tensor:
        """The largest E."""
        return logs.amax((-2, -1), keepdim=True)

    def join(self, c: Tensor, d: Tensor) -> Tensor:
        """The larger."""
        return torch.maximum(c, d)

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Queries whose visible keys have the same largest E are taken together: [n, D], [N, D], bool [n, N] -> [n, N]."""
        logs, features = self.logs(k), self(q)
        largest = logs.detach().amax(-1).masked_fill(~seen, nothing(k.dtype)).amax(-1)
        found = logs.new_zeros(seen.shape)
        for c in largest.unique():
            mine = (largest == c).nonzero().squeeze(1)
            found = found.index_copy(0, mine, features[mine] @ (logs - c).clamp(max=0).exp().mT)
        return found * seen

    def room(self, D: int) -> Room:
        """Keys are scaled apart from their logs."""
        C = self.width(D)
        return Room(C, 2 * C + 1, 2 * D + 1)

    def flops(self, D: int) -> tuple[float, float]:
        """The projection, and its transpose."""
        return (2.0 * D * self.projection.shape[0],) * 2

    def _scaled(self, x: Tensor) -> Tensor:
        """Wᵀ / D^¼, [D, C], in the dtype of x."""
        return self.projection.to(x.dtype).mT


def orthogonal_gaussian(rows: int, D: int) -> Tensor:
    """Rows of N(0, 1)^D, orthogonal within each block of D: [rows, D], from torch's global generator.

    Choromanski et al. 2020, section 2.4: directions uniform on the sphere, lengths those of Gaussian vectors.
    """
    blocks = [_orthogonal(D) for _ in range(-(-rows // D))]
    lengths: Tensor = torch.randn(rows, D).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:rows] * lengths


def _orthogonal(D: int) -> Tensor:
    """A uniformly random orthogonal matrix (Mezzadri 2007, section 5).

    The signs are those of R's diagonal: LAPACK's own leave the first entry of the first direction negative, and the estimate
    of exp(q·k / √D) biased.
    """
    directions, R = torch.linalg.qr(torch.randn(D, D))
    uniform: Tensor = (directions * R.diagonal().sign()).mT
    return uniform
