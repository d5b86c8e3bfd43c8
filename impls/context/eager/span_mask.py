"""The soft mask of a span, m_z(x) = clip((R + z - x) / R, 0, 1) at the distance x = i - j.

z span, R ramp, N tokens, H heads, `nearest` the least distance at which a key is seen (1, or 0 where a token sees itself), w
distances from there on at which m > 0.
"""

import math

import torch
from torch import Tensor

from ...partial.softmax import sums


def reach(z: float, ramp: float, N: int, nearest: int) -> int:
    """Count w, the distances from `nearest` on that are at most z or below z + R, and below N. z may be infinite."""
    # a narrow ramp may be lost when added to z, so distances up to z are counted separately
    return max(0, max(min(N, math.floor(min(z, N)) + 1), math.ceil(min(z + ramp, N))) - nearest)


def log_mask(z: float, ramp: float, N: int, nearest: int, like: Tensor) -> Tensor:
    """Compute log m_z(x) for x = nearest … nearest + w - 1: [w], in the dtype of sums."""
    x = nearest + torch.arange(reach(z, ramp, N, nearest), dtype=torch.float64, device=like.device)
    # z - x first: otherwise a narrow ramp is lost beside a large z, and the mask would not be 1 up to z
    return ((ramp + (z - x)) / ramp).clamp(max=1).log().to(sums(like.dtype))


def ramp_distances(z: float, ramp: float, N: int, nearest: int) -> tuple[int, int]:
    """Return the first distance with 0 < m < 1 and the number of such distances, where z has a gradient."""
    first = max(nearest, math.floor(min(z, N)) + 1)
    return first, max(0, math.ceil(min(z + ramp, N)) - first)


def soft_mask(z: Tensor, ramp: float, nearest: int, x: Tensor) -> Tensor:
    """Compute m for z [H] and distances x [·, ·]: [H, ·, ·], 0 below the nearest, in float32 at least.

    Its gradient is that of the ramp without its two ends.
    """
    z = z.to(sums(z.dtype))[:, None, None]
    # not clamp, which would give the ends of the ramp a gradient
    inside = (x > z) & (x < ramp + z)
    return torch.where(inside, (ramp + (z - x)) / ramp, (x <= z).to(z.dtype)).masked_fill(x < nearest, 0)
