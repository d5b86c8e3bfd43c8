"""Relative positions: what a query says to each distance, moved to the key that is so far away.

L queries of a segment, W = memory + L keys of its window, D width. Query l and key c are l + memory - c tokens apart.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def sinusoids(count: int, D: int) -> Tensor:
    """R_x for the distances x = count - 1, …, 1, 0: sines of x 10000^(-2d/D), then cosines; float64 [count, D].

    Vaswani et al. 2017, section 3.5; in the order of Dai et al. 2019's code, sines first.
    """
    rates = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    angles = torch.arange(count - 1, -1, -1, dtype=torch.float64)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :D]


def with_gap(table: Tensor, width: int) -> Tensor:
    """The last `width` rows, distances width - 1 … 0, and a row of zeros, which makes `moved` a view: [width + 1, D]."""
    return F.pad(table[-width:], (0, 0, 0, 1))


def moved(scores: Tensor) -> Tensor:
    """[..., L, W + 1] by distance -> [..., L, W] by key, a view of dense rows: Dai et al. 2019, appendix B.

    Row l moves left by L - 1 - l. Keys after the query get numbers of the next row, which are to be hidden.
    """
    L, width = scores.shape[-2], scores.shape[-1] - 1
    by_key: Tensor = scores.flatten(-2)[..., L - 1 : L - 1 + L * width].unflatten(-1, (L, width))
    return by_key


def clear_outside(scores: Tensor) -> None:
    """Put 0 where `moved` does not reach, in place."""
    L, width = scores.shape[-2], scores.shape[-1] - 1
    flat = scores.flatten(-2)
    flat[..., : L - 1] = 0
    flat[..., L - 1 + L * width :] = 0
