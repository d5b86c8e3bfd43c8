"""Feature maps φ, which replace the exponential of the softmax.

D query/key width, C width of φ. A map that needs no drawing and no normaliser is here or in a file of its name; maps that are
exponentials, and so need a stabiliser, derive from exponential.py.
"""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..eager.segments import accumulator


class FeatureMap(nn.Module, ABC):
    """φ: [..., D] -> [..., C], the same for queries and keys: sim(q, k) = φ(q)·φ(k).

    `forward` is the definition. `value` and `pull_back` are what the methods compute with: by segments, without a graph.
    """

    eps: float = 1e-6
    """Default of what is added to denominators."""

    @abstractmethod
    def width(self, D: int) -> int:
        """Return C, the width of φ(x)."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Compute φ(x), differentiable: the definition."""

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(x) as a new tensor, which the caller may overwrite."""
        phi: Tensor = self(x.detach())
        return phi

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:  # noqa: ARG002 - others need φ(x)
        """Compute dL/dx from x, φ(x) and dL/dφ(x); may overwrite the last two."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (dx,) = torch.autograd.grad(self(x), x, dphi)
        return dx

    def write_pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor, dx: Tensor) -> None:
        """Write dL/dx into dx."""
        dx.copy_(self.pull_back(x, phi, dphi))

    def similarity(self, q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
        """Compute sim_ij, 0 where `visible`, bool [B, 1, N or 1, N], is False: [B, H, N, D] x2 -> [B, H, N, N]."""
        similarity: Tensor = self(q) @ self(k).mT
        return similarity * visible

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute the same for a few queries of one head: [n, D], [N, D], bool [n, N] -> [n, N]."""
        similarity: Tensor = self(q) @ self(k).mT
        return similarity * seen

    def flops(self, D: int) -> tuple[float, float]:  # noqa: ARG002 - most maps do without products
        """Count the FLOPs of matrix products per token, of φ(x) and of its pull-back."""
        return 0.0, 0.0

    def arithmetic(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype to compute in: float16 ends at 65504, which a denominator exceeds at a thousand tokens."""
        return torch.float32 if dtype is torch.float16 else dtype

    def sums(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype of sums to which tokens are added one by one: float32 at least."""
        return accumulator(dtype)


class Elementwise(FeatureMap):
    """A map of each number by itself, whose slope follows from its value."""

    def width(self, D: int) -> int:
        """Return C = D."""
        return D

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:  # noqa: ARG002 - φ(x) says it all
        """Compute dL/dx in the place of dL/dφ."""
        return dphi.mul_(self.slope_(phi))

    def write_pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor, dx: Tensor) -> None:  # noqa: ARG002 - φ(x) says it all
        """Write dL/dx into dx, in one pass."""
        torch.mul(dphi, self.slope_(phi), out=dx)

    @abstractmethod
    def slope_(self, phi: Tensor) -> Tensor:
        """Compute φ'(x) from φ(x), in its place; x is not needed again."""


class EluPlusOne(Elementwise):
    """φ(x) = x + 1 where x is positive, exp(x) elsewhere (Katharopoulos et al. 2020, eq. 7)."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute φ(x) as the paper writes it."""
        return F.elu(x) + 1

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(x) as exp(min(x, 0)) + max(x, 0): elu takes expm1, which is five times slower, and the 1 undoes it."""
        return x.clamp(max=0).exp_().add_(x.clamp(min=0))

    def slope_(self, phi: Tensor) -> Tensor:
        """Compute the slope: 1 where φ > 1, and φ itself elsewhere, since exp is its own derivative."""
        return phi.clamp_(max=1)


class Relu(Elementwise):
    """φ(x) = max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute φ(x) as a new tensor."""
        return F.relu(x)

    def slope_(self, phi: Tensor) -> Tensor:
        """Compute the slope: 1 where φ > 0, else 0."""
        return phi.sign_()


class SquaredRelu(Elementwise):
    """φ(x) = max(x, 0)²."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute φ(x) as a new tensor."""
        return F.relu(x).square()

    def slope_(self, phi: Tensor) -> Tensor:
        """Compute the slope, 2 max(x, 0)."""
        return phi.sqrt_().mul_(2)


ELEMENTWISE: dict[str, type[Elementwise]] = {"elu_plus_one": EluPlusOne, "relu": Relu, "squared_relu": SquaredRelu}


def elementwise(name: str) -> str:
    """Return the name of a map that a kernel can apply to each number as it loads it. Raises ValueError on others."""
    if name not in ELEMENTWISE:
        raise ValueError(f"feature_map={name!r}: must be one of {', '.join(ELEMENTWISE)}")
    return name


def without_hidden(k: Tensor, key_mask: Tensor | None) -> Tensor:
    """Set keys [B, H, N, D] that key_mask, bool [B, N], hides to -inf: φ(-inf) = 0 for every elementwise map."""
    return k if key_mask is None else k.masked_fill(~key_mask[:, None, :, None], float("-inf"))
