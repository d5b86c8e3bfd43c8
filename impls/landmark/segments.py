"""Landmarks: the means of segments of neighbouring tokens.

B batch, H heads, N tokens, S segments, D width. Tensors are [B, N, H, D].
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def beside_means(x: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Return x, and its means [B, S, H, D]; where S does not divide N, the first N mod S segments have one more token.

    Use the returned x from there on: both of its uses then give one gradient, computed in one pass. Differentiable once.
    """
    same, means = _BesideMeans.apply(x, segments)  # type: ignore[no-untyped-call]
    return same, means


class _BesideMeans(torch.autograd.Function):
    """`beside_means` with its gradient; autograd would expand the gradient of the means to all tokens before adding."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, segments: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - as torch passes it
        ctx.segments = segments
        # not `mean`, which first copies all of a half-precision x into float32
        return x, torch.cat([part.sum(2) / part.shape[2] for part in _in_segments(x, segments)], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, g_means: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - as torch passes it
        dx, first = torch.empty_like(g), 0
        for part, out in zip(_in_segments(g, ctx.segments), _in_segments(dx, ctx.segments), strict=True):
            count, length = part.shape[1:3]
            torch.add(part, g_means[:, first : first + count].unsqueeze(2), alpha=1 / length, out=out)
            first += count
        return dx, None


def _in_segments(x: Tensor, segments: int) -> list[Tensor]:
    """View the longer segments, if any, and the others as [B, segments, tokens, H, D]."""
    length, longer = divmod(x.shape[1], segments)
    parts = x.split([longer * (length + 1), (segments - longer) * length], dim=1)
    return [part.unflatten(1, (-1, size)) for part, size in zip(parts, (length + 1, length), strict=True) if part.shape[1]]
