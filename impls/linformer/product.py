"""Keys or values times a projection, and its backward, without copying either.

B batch, K heads of k and v, G = K or 1 matrices, N tokens, S projected keys, C width. Tensors are [B, N, K, C], in which the
heads that share a matrix are columns of one product.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def project(e: Tensor, x: Tensor) -> Tensor:
    """Compute E x: [G, S, N], [B, N, K, C] -> [B, S, K, C], differentiable once in both."""
    o: Tensor = _Project.apply(e, x)  # type: ignore[no-untyped-call]
    return o


class _Project(torch.autograd.Function):
    """`project` with its gradient; autograd would copy x into another order, or keep a dE for each sample."""

    @staticmethod
    def forward(ctx: Any, e: Tensor, x: Tensor) -> Tensor:  # noqa: ANN401 - as torch passes it
        ctx.save_for_backward(e, x)
        return _multiply(e, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ANN401 - as torch passes it
        e, x = ctx.saved_tensors
        de = _sum_of_outer_products(g, x, len(e)) if ctx.needs_input_grad[0] else None
        return de, _multiply(e.mT, g) if ctx.needs_input_grad[1] else None


def _multiply(e: Tensor, x: Tensor) -> Tensor:
    """Multiply each sample: [G, S, N], [B, N, K, C] -> [B, S, K, C]."""
    o_BSKC = x.new_empty(len(x), e.shape[1], *x.shape[2:])
    for o, x_NKC in zip(o_BSKC, x, strict=True):
        torch.bmm(e, _columns(x_NKC, len(e)), out=_columns(o, len(e)))
    return o_BSKC


def _sum_of_outer_products(g: Tensor, x: Tensor, matrices: int) -> Tensor:
    """Compute Σ_b g_b x_bᵀ: [B, S, K, C], [B, N, K, C] -> [G, S, N], added up in place."""
    total = g.new_empty(matrices, g.shape[1], x.shape[1])
    for b, (g_b, x_NKC) in enumerate(zip(g, x, strict=True)):
        total.baddbmm_(_columns(g_b, matrices), _columns(x_NKC, matrices).mT, beta=float(b > 0))
    return total


def _columns(x_NKC: Tensor, matrices: int) -> Tensor:
    """Arrange [N, K, C] for products with each matrix: [1, N, K C] or [K, N, C]; a view where memory is in that order."""
    return x_NKC.flatten(1).unsqueeze(0) if matrices == 1 else x_NKC.transpose(0, 1)
