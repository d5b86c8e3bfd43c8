"""The polynomial map of degree two: similarity (q·k)²."""

import math

import torch
from torch import Tensor

from .feature_map import FeatureMap


class Quadratic(FeatureMap):
    """φ(x) = (x_a², …, √2 x_a x_b, …) over a < b, so that sim(q, k) = (q·k)² (Katharopoulos et al. 2020, section 3.2.1).

    The power is even, so the sign of q·k is not seen. The state has D (D + 1) / 2 rows, which pays off where N is far larger.
    """

    def __init__(self, D: int) -> None:
        super().__init__()
        rows, columns = torch.triu_indices(D, D)
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("columns", columns, persistent=False)
        place = torch.zeros(D, D, dtype=torch.int64)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows), device=place.device)
        self.register_buffer("place", place.flatten(), persistent=False)  # where x_a x_b is in φ(x)

    rows: Tensor
    columns: Tensor
    place: Tensor

    def width(self, D: int) -> int:
        """Return C = D (D + 1) / 2."""
        return D * (D + 1) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., D] -> [..., D (D + 1) / 2]."""
        return x.index_select(-1, self.rows) * x.index_select(-1, self.columns) * self._factors(x)

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(x) with one temporary tensor."""
        return x.index_select(-1, self.rows).mul_(x.index_select(-1, self.columns)).mul_(self._factors(x))

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:  # noqa: ARG002 - x says it all
        """Compute dx_a = Σ_b G_ab x_b with G symmetric: 2 dφ_aa on its diagonal, √2 dφ_ab beside it."""
        D = x.shape[-1]
        # the factors are 2 for squares and √2 for the rest, while φ itself has 1 and √2
        twice = self._factors(x).add_((self.rows == self.columns).to(x.dtype))
        symmetric = dphi.mul_(twice).index_select(-1, self.place).unflatten(-1, (D, D))
        dx: Tensor = symmetric @ x.unsqueeze(-1)
        return dx.squeeze(-1)

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute (q·k)², which needs no φ."""
        return (q @ k.mT).square() * seen

    def sums(self, dtype: torch.dtype) -> torch.dtype:  # noqa: ARG002 - whatever it is
        """Return float64: where q·k is small the terms of φ(q)·φ(k) cancel, differently in numerator and denominator."""
        return torch.float64

    def flops(self, D: int) -> tuple[float, float]:
        """Count the FLOPs of the pull-back, a product of D × D with each x."""
        return 0.0, 2.0 * D * D

    def _factors(self, x: Tensor) -> Tensor:
        """Return 1 for squares, √2 for the rest."""
        return (self.rows != self.columns).to(x.dtype).mul_(math.sqrt(2) - 1).add_(1)
