"""φ(x) = elu(x) + 1 and its derivative (Katharopoulos et al. 2020, eq. 7)."""

import torch.nn.functional as F
from torch import Tensor


def elu_plus_one(x: Tensor) -> Tensor:
    """φ(x): x + 1 where positive, exp(x) elsewhere; a new tensor."""
    return F.elu(x).add_(1)


def slope_(phi: Tensor) -> Tensor:
    """φ'(x) from φ(x), in its place.

    1 where φ > 1, and φ itself elsewhere, since exp is its own derivative: x is not needed again.
    """
    return phi.clamp_(max=1)
