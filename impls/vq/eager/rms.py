"""Normalisation by the root mean square, some tokens at a time, with a gradient that keeps one number a token.

D width of a token.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import sums

EPS = 1e-6

_ELEMENTS = 2**18
"""Number of elements that are normalised together on a CPU: they stay in its cache, even widened from half precision."""


def rms_norm(x: Tensor, factor: float) -> Tensor:
    """Compute `factor` x / √(mean x² + 1e-6) over the last dimension, without a gain; Zhang and Sennrich 2019.

    Differentiable once.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        y: Tensor = _RmsNorm.apply(x, factor)  # type: ignore[no-untyped-call]
        return y
    return _normalise(x, factor)[0]


def _normalise(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Compute the normalised x, and what x was multiplied by, [..., 1], in float32 at least."""
    # dense, so that parts of them are views
    y, inverse = x.new_empty(x.shape), x.new_empty(*x.shape[:-1], 1, dtype=sums(x.dtype))
    for x_part, y_part, r in _parts(x, y, inverse):
        wide = x_part.to(r.dtype)
        torch.linalg.vector_norm(wide, dim=-1, keepdim=True, out=r)
        r.square_().div_(x.shape[-1]).add_(EPS).rsqrt_().mul_(factor)
        torch.mul(wide, r, out=y_part)
    return y, inverse


def _parts(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cut each tensor into parts of some tokens, [n, ·]; a GPU takes 64 times as many."""
    x = tensors[0]
    room = _ELEMENTS if x.device.type == "cpu" else 64 * _ELEMENTS
    return zip(*(t.flatten(0, -2).split(max(1, room // x.shape[-1])) for t in tensors), strict=True)


class _RmsNorm(torch.autograd.Function):
    """`rms_norm` with its gradient: y = r x, dx = r (g - x (x·g) r² / (factor² D)). Autograd would also keep x² and x r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Normalise, and keep r."""
        y, inverse = _normalise(x, factor)
        ctx.factor = factor
        ctx.save_for_backward(x, inverse)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Remove the part of g that lies along x, and multiply by r."""
        x, inverse = ctx.saved_tensors
        dx = x.new_empty(x.shape)
        for x_part, g_part, r, out in _parts(x, g, inverse, dx):
            wide, g_wide = x_part.to(r.dtype), g_part.to(r.dtype)
            along = (wide * g_wide).sum(-1, keepdim=True).mul_(r.square()).div_(-x.shape[-1] * ctx.factor**2)
            torch.mul(torch.addcmul(g_wide, wide, along), r, out=out)
        return dx, None
