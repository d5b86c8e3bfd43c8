"""The polynomial map of degree two: similarity (q·k)²."""

import math

import torch
from torch import Tensor

from .feature_map import FeatureMap


class Quadratic(FeatureMap):
    """φ(x) = (x_a², …, √2 x_a x_b, …) over all pairs, so that sim(q, k) = (q·k)² (Katharopoulos et al. 2020, section 3.2.1).

    The power is even, so the sign of q·k is not seen. The state has D (D + 1) / 2 rows, which pays off where N is far larger.
    They go by the distance d of a pair: x_a x_{a+d mod D} for all a, from d = 0 to D / 2, where an even D meets each pair twice
    and keeps half. So they are products of whole rows, while a list of pairs would be looked up number by number.
    """

    def width(self, D: int) -> int:
        """Return C = D (D + 1) / 2."""
        return D * (D + 1) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., D] -> [..., D (D + 1) / 2]."""
        D = x.shape[-1]
        pairs = (x.unsqueeze(-2) * _turned(x)).flatten(-2)[..., D : self.width(D)]
        return torch.cat((x.square(), math.sqrt(2) * pairs), -1)

    def value(self, x: Tensor) -> Tensor:
        """Compute φ(x) in its own memory."""
        phi = x.new_empty(*x.shape[:-1], self.width(x.shape[-1]))
        self.write(x, phi)
        return phi

    def write(self, x: Tensor, phi: Tensor) -> None:
        """Write φ(x) of [..., D] into [..., D (D + 1) / 2], of any stride but the last."""
        D, turned, longer = x.shape[-1], _turned(x), (x * math.sqrt(2)).unsqueeze(-2)
        torch.mul(x, x, out=phi[..., :D])
        pairs, half = _by_distance(phi[..., D:], D)
        torch.mul(longer, turned[..., 1 : pairs.shape[-2] + 1, :], out=pairs)
        torch.mul(longer[..., 0, : half.shape[-1]], x[..., D - half.shape[-1] :], out=half)

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:  # noqa: ARG002 - x says it all
        """Compute dx_a and dx_{a+d} from dφ of x_a x_{a+d}: the sums of dφ times the other, by distance."""
        D, turned = x.shape[-1], _turned(x)
        dphi[..., D:].mul_(math.sqrt(2))
        pairs, half = _by_distance(dphi, D)
        count, length = pairs.shape[-2], D + pairs.shape[-2]
        dx = (pairs * turned[..., :count, :]).sum(-2)
        # rows of one number more than are read next lie shifted by their distance, and what they end with is 0
        others = x.new_empty(*x.shape[:-1], count, length)
        others[..., D:] = 0
        torch.mul(pairs, x.unsqueeze(-2), out=others[..., :D])
        shifted = others.flatten(-2)[..., : count * (length - 1)].unflatten(-1, (count, length - 1)).sum(-2)
        dx += shifted[..., :D]
        dx[..., : count - 1] += shifted[..., D:]
        n = half.shape[-1]
        dx[..., :n] += half * x[..., D - n :]
        dx[..., D - n :] += half * x[..., :n]
        return dx

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute (q·k)², which needs no φ."""
        return (q @ k.mT).square() * seen

    def sums(self, dtype: torch.dtype) -> torch.dtype:  # noqa: ARG002 - whatever it is
        """Return float64: where q·k is small the terms of φ(q)·φ(k) cancel, differently in numerator and denominator."""
        return torch.float64


def _turned(x: Tensor) -> Tensor:
    """View x_{a+d mod D} for the distances d = 0 … D / 2: [..., D] -> [..., D // 2 + 1, D]."""
    D = x.shape[-1]
    return torch.cat((x, x[..., : D // 2]), -1).unfold(-1, D, 1)


def _by_distance(rows: Tensor, D: int) -> tuple[Tensor, Tensor]:
    """View rows of products by distance: those of D each [..., d, D], and the half row at the end [..., D / 2 or 0]."""
    whole = rows.shape[-1] // D
    return rows[..., : whole * D].unflatten(-1, (whole, D)), rows[..., whole * D :]
