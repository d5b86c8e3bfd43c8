"""Feature maps φ, by name."""

from abc import ABC, abstractmethod

import torch.nn.functional as F
from torch import Tensor, nn


class FeatureMap(nn.Module, ABC):
    """φ: [..., D] -> [..., C], the same for queries and keys."""

    @abstractmethod
    def width(self, D: int) -> int:
        """C, the width of φ(x)."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """φ(x), differentiable: the definition."""


class Elementwise(FeatureMap):
    """A map of each number by itself, whose slope can be had from its value; φ(-inf) = 0, so that hidden keys vanish."""

    def width(self, D: int) -> int:
        """C = D."""
        return D

    @abstractmethod
    def slope_(self, phi: Tensor) -> Tensor:
        """φ'(x) from φ(x), in its place; x is not needed again."""


class EluPlusOne(Elementwise):
    """x + 1 where positive, exp(x) elsewhere (Katharopoulos et al. 2020, eq. 7)."""

    def forward(self, x: Tensor) -> Tensor:
        """φ(x), a new tensor."""
        return F.elu(x).add_(1)

    def slope_(self, phi: Tensor) -> Tensor:
        """1 where φ > 1, and φ itself elsewhere, since exp is its own derivative."""
        return phi.clamp_(max=1)


class Relu(Elementwise):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """φ(x), a new tensor."""
        return F.relu(x)

    def slope_(self, phi: Tensor) -> Tensor:
        """1 where φ > 0, else 0."""
        return phi.sign_()


class SquaredRelu(Elementwise):
    """max(x, 0)²."""

    def forward(self, x: Tensor) -> Tensor:
        """φ(x), a new tensor."""
        return F.relu(x).square()

    def slope_(self, phi: Tensor) -> Tensor:
        """2 max(x, 0)."""
        return phi.sqrt_().mul_(2)


ELEMENTWISE: dict[str, type[Elementwise]] = {"elu_plus_one": EluPlusOne, "relu": Relu, "squared_relu": SquaredRelu}


def feature_map(name: str) -> FeatureMap:
    """The map of that name. Raises ValueError where there is none."""
    if name not in ELEMENTWISE:
        raise ValueError(f"feature_map={name!r}: must be one of {', '.join(ELEMENTWISE)}")
    return ELEMENTWISE[name]()
