"""The map of Based: the exponential's Taylor series up to its second degree."""

import math

import torch
from torch import Tensor

from .feature_map import FeatureMap
from .quadratic import Quadratic


class Taylor(FeatureMap):
    """φ(x) = [1, y, y ⊗ y / √2] with y = x / D^¼, so that sim(q, k) = 1 + s + s²/2 with s = q·k / √D.

    y_a y_b and y_b y_a are stored as one: C = 1 + D + D (D + 1) / 2, where the paper counts 1 + D + D². The similarity is at
    least 1/2, so denominators are no small differences.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pairs = Quadratic()

    def width(self, D: int) -> int:
        """Return C = 1 + D + D (D + 1) / 2."""
        return 1 + D + self.pairs.width(D)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., D] -> [..., C]."""
        y = x * _shrink(x)
        return torch.cat((y.new_ones(*y.shape[:-1], 1), y, self.pairs(y) / math.sqrt(2)), -1)

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(x) in its own memory."""
        D, y = x.shape[-1], x * _shrink(x)
        phi = x.new_empty(*x.shape[:-1], self.width(D))
        phi[..., 0] = 1
        phi[..., 1 : D + 1] = y
        self.pairs.write(y * 2**-0.25, phi[..., D + 1 :])
        return phi

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:
        """Compute dL/dy of the two parts, and from it dL/dx."""
        D, y = x.shape[-1], x * _shrink(x)
        dy = self.pairs.pull_back(y, phi, dphi[..., D + 1 :].div_(math.sqrt(2)))
        return dy.add_(dphi[..., 1 : D + 1]).mul_(_shrink(x))

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute 1 + s + s²/2, which needs no φ."""
        s = q @ k.mT / math.sqrt(q.shape[-1])
        return (1 + s + s.square() / 2) * seen


def _shrink(x: Tensor) -> float:
    """Return 1 / D^¼, the factor of both q and k."""
    return float(x.shape[-1] ** -0.25)
