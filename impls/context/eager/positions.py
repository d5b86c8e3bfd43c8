"""Relative positions: scores of each distance, shifted to the key at that distance.

L queries of a segment, W = memory + L keys of its window, D width. Query l and key c are l + memory - c tokens apart.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def sinusoids(count: int, D: int) -> Tensor:
    """Compute R_x for the distances x = count - 1, …, 1, 0: sines of x 10000^(-2d/D), then cosines; float64 [count, D].

    Vaswani et al. 2017, section 3.5, with sines first, as in the code of Dai et al. 2019.
    """
    rates = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    angles = torch.arange(count - 1, -1, -1, dtype=torch.float64)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :D]


def with_gap(table: Tensor, width: int) -> Tensor:
    """Take the last `width` rows, distances width - 1 … 0, and append zeros, so that `moved` is a view: [width + 1, D]."""
    return F.pad(table[-width:], (0, 0, 0, 1))


def moved(scores: Tensor) -> Tensor:
    """Shift scores [..., L, W + 1] by distance -> [..., L, W] by key, a view with dense rows: Dai et al. 2019, appendix B.

    Row l moves left by L - 1 - l. Keys after the query receive numbers of the next row, which the caller must hide.
    """
    L, width = scores.shape[-2], scores.shape[-1] - 1
    by_key: Tensor = scores.flatten(-2)[..., L - 1 : L - 1 + L * width].unflatten(-1, (L, width))
    return by_key


def clear_outside(scores: Tensor) -> None:
    """Set to 0, in place, what the view of `moved` does not cover."""
    L, width = scores.shape[-2], scores.shape[-1] - 1
    flat = scores.flatten(-2)
    flat[..., : L - 1] = 0
    flat[..., L - 1 + L * width :] = 0
