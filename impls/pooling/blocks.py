"""Means over blocks of neighbouring tokens, and spreading blocks over their tokens again.

B batch, H heads, N tokens, S = N / factor blocks, rounded up, C width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def block_count(N: int, factor: int) -> int:
    """Count the blocks, S, of which the last may be shorter."""
    return -(-N // factor)


def means(x: Tensor, factor: int) -> Tensor:
    """Average each block over the tokens it has: [B, H, N, C] -> [B, H, S, C], each head's rows dense. Differentiable once."""
    pooled: Tensor = _Means.apply(x, factor)  # type: ignore[no-untyped-call]
    return pooled


def visible_means(x: Tensor, key_mask: Tensor, factor: int) -> Tensor:
    """Average each block over its visible tokens, key_mask bool [B, N]; 0 where there are none.

    [B, H, N, C] -> [B, H, S, C].
    """
    total = means(x.masked_fill(~key_mask[:, None, :, None], 0), factor)
    return total / _share(key_mask, factor, x.dtype).clamp(min=1 / factor)


def visible_blocks(key_mask: Tensor, factor: int) -> Tensor:
    """Mark the blocks with at least one visible token: bool [B, N] -> [B, 1, 1, S]."""
    return (_share(key_mask, factor, torch.float32) > 0).mT


def spread(x: Tensor, factor: int, N: int) -> Tensor:
    """Repeat each block's row for all of its tokens: [B, H, S, C] -> [B, H, N, C], tokens outermost in memory."""
    # factor may be larger than N
    rows = x.transpose(1, 2).unsqueeze(2).expand(-1, -1, min(factor, N), -1, -1).flatten(1, 2)
    return rows[:, :N].transpose(1, 2)


class _Means(torch.autograd.Function):
    """`means` with its gradient; autograd would write the gradient in another memory order, and copy it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Average whole blocks, then the shorter one."""
        ctx.N, ctx.factor = x.shape[2], factor
        pooled = x.new_empty(*x.shape[:2], block_count(x.shape[2], factor), x.shape[3])
        for tokens, blocks in _equal_blocks(x, pooled, factor):
            torch.mean(tokens, 3, out=blocks)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own bag
        """Give each token its share of the gradient, with tokens outermost in memory."""
        dx = g.new_empty(g.shape[0], ctx.N, g.shape[1], g.shape[3]).transpose(1, 2)
        for tokens, blocks in _equal_blocks(dx, g, ctx.factor):
            tokens.copy_((blocks / tokens.shape[3]).unsqueeze(3))
        return dx, None


def _equal_blocks(x: Tensor, pooled: Tensor, factor: int) -> list[tuple[Tensor, Tensor]]:
    """Pair views of tokens [B, H, ·, length, C] and blocks [B, H, ·, C]: those of `factor` tokens, and a shorter last one."""
    count, rest = divmod(x.shape[2], factor)
    whole = count * factor
    pairs = [(x[:, :, :whole].unflatten(2, (count, factor)), pooled[:, :, :count])] if count else []
    return [*pairs, (x[:, :, whole:].unsqueeze(2), pooled[:, :, count:])] if rest else pairs


def _share(key_mask: Tensor, factor: int, dtype: torch.dtype) -> Tensor:
    """Compute the visible share of each block: [B, 1, S, 1]."""
    return means(key_mask[:, None, :, None].to(dtype), factor)
