"""The cosine map: similarity 1 + cos(q, k)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .feature_map import FeatureMap


class Cosine(FeatureMap):
    """φ(x) = [1, x / ‖x‖], so that sim(q, k) = 1 + q·k / (‖q‖ ‖k‖) ≥ 0 (Su 2020, kexue.fm/archives/7546).

    The norm is taken as at least 1e-12; the similarity of opposite vectors is 0.
    """

    def width(self, D: int) -> int:
        """Return C = D + 1."""
        return D + 1

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., D] -> [..., D + 1]."""
        return torch.cat([x.new_ones(*x.shape[:-1], 1), F.normalize(x, dim=-1)], dim=-1)
