"""Unit triangular systems, many small ones at a time, as products of matrices.

L rows of a system, W columns of a right side, h rows of a block.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 16
"""Most rows of a block that is inverted by substitution, a third of the speed of products on a CPU; longer ones are joined."""


def solve(a: Tensor, *sides: Tensor) -> tuple[Tensor, ...]:
    """Compute (I + a)⁻¹ b for every right side b: [..., L, L], [..., L, W] -> [..., L, W]; differentiable once.

    Only what is below the diagonal of a counts. The inverse is made and multiplied with each side. It is made by substitution
    in blocks, which are joined two by two, and not by powers of a: with repeated keys those reach 10¹⁸ before they vanish.
    """
    solved: tuple[Tensor, ...] = _Solve.apply(a, *sides)  # type: ignore[no-untyped-call]
    return solved


def inverse(a: Tensor) -> Tensor:
    """Compute (I + a)⁻¹ from what is below the diagonal of a: [..., L, L] -> [..., L, L]; not differentiable.

    Two blocks are joined by (A 0; C B)⁻¹ = (A⁻¹ 0; -B⁻¹ C A⁻¹ B⁻¹).
    """
    L = h = a.shape[-1]
    while h > ROWS and h % 2 == 0:
        h //= 2
    own = _blocks(a, h)
    made = torch.linalg.solve_triangular(
        own, torch.eye(h, dtype=a.dtype, device=a.device).expand_as(own), upper=False, unitriangular=True
    )
    while h < L:
        first, second = made[..., ::2, :, :], made[..., 1::2, :, :]
        between = second @ (_blocks(a, 2 * h)[..., h:, :h] @ first)
        made = a.new_zeros(*first.shape[:-2], 2 * h, 2 * h)
        made[..., :h, :h], made[..., h:, :h], made[..., h:, h:] = first, between.neg_(), second
        h *= 2
    inverted: Tensor = made.squeeze(-3)
    return inverted


def _blocks(a: Tensor, h: int) -> Tensor:
    """View the blocks on the diagonal: [..., L, L] -> [..., L / h, h, h]."""
    blocks: Tensor = a.unflatten(-1, (-1, h)).unflatten(-3, (-1, h)).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
    return blocks


class _Solve(torch.autograd.Function):
    """`solve` with its gradient: dL/db = (I + a)⁻ᵀ dL/dx, and dL/da = -Σ dL/db xᵀ below the diagonal."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own bag
        """Invert once: a, then the sides, which torch.compile confuses where one of them has a name of its own."""
        a, *sides = tensors
        inverted = inverse(a)
        solved = tuple(inverted @ b for b in sides)
        ctx.save_for_backward(inverted, *solved)
        return solved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own bag
        """Multiply with the transposed inverse."""
        inverted, *solved = ctx.saved_tensors
        dsides = tuple(inverted.mT @ g for g in slopes)
        da, *others = (db @ x.mT for db, x in zip(dsides, solved, strict=True))
        for other in others:
            da += other
        return da.neg_().tril_(-1), *dsides
