"""Blocks of L neighbouring tokens, each reduced to one key: by its mean, or by a kernel for each channel.

B batch, K heads of k and v, N tokens, S = N / L blocks, rounded up, C width. Tensors are [B, N, K, C] -> [B, S, K, C]; where L
does not divide N the last block is shorter.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..partial.softmax import sums


def mean(x: Tensor, L: int) -> Tensor:
    """Average each block over the tokens that it has: [B, N, K, C] -> [B, S, K, C]."""
    rest = x.shape[1] % L
    if not rest:
        return _mean(x, L)
    # one split, whose backward is one copy
    whole, last = x.split([x.shape[1] - rest, rest], dim=1)
    return torch.cat([_mean(whole, L), _mean(last, rest)], dim=1)


def _mean(x: Tensor, L: int) -> Tensor:
    # divided after the sum, so that the backward divides before the gradient grows to N rows
    o: Tensor = x.unflatten(1, (-1, L)).sum(2) / L
    return o


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """Compute Σ_l w_l ∘ x_(sL + l) with w [L, K, C], zeros beyond the end; differentiable once in both."""
    o: Tensor = _Convolve.apply(x, kernel)  # type: ignore[no-untyped-call]
    return o


class _Convolve(torch.autograd.Function):
    """`convolve` with its gradient.

    Kernel and stride have one length: offset by offset, each token is read once, and no product of x is kept.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor) -> Tensor:  # noqa: ANN401 - as torch passes it
        ctx.save_for_backward(x, kernel)
        (B, N), L = x.shape[:2], len(kernel)
        total = x.new_zeros(B, -(-N // L), *x.shape[2:], dtype=sums(x.dtype))
        for offset, weight in enumerate(kernel):
            tokens = x[:, offset::L]
            total[:, : tokens.shape[1]].addcmul_(tokens, weight)
        return total.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - as torch passes it
        x, kernel = ctx.saved_tensors
        L, dx, dkernel = len(kernel), torch.empty_like(x), torch.empty_like(kernel)
        for offset, weight in enumerate(kernel):
            tokens = x[:, offset::L]
            g_BSKC = g[:, : tokens.shape[1]]
            torch.mul(g_BSKC, weight, out=dx[:, offset::L])
            torch.sum(g_BSKC * tokens, dim=(0, 1), out=dkernel[offset])
        return dx, dkernel
