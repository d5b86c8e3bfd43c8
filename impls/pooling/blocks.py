"""Means over blocks of neighbouring tokens, and tokens from blocks again.

B batch, H heads, N tokens, S = N / factor blocks, rounded up, C width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def block_count(N: int, factor: int) -> int:
    """S: the last block may be shorter."""
    return -(-N // factor)


def means(x: Tensor, factor: int) -> Tensor:
    """[B, H, N, C] -> [B, H, S, C], each head's rows dense; of the last block over what there is. Once differentiable."""
    pooled: Tensor = _Means.apply(x, factor)  # type: ignore[no-untyped-call]
    return pooled


def visible_means(x: Tensor, key_mask: Tensor, factor: int) -> Tensor:
    """Over the tokens that key_mask, bool [B, N], leaves; 0 for blocks without any: [B, H, N, C] -> [B, H, S, C]."""
    total = means(x.masked_fill(~key_mask[:, None, :, None], 0), factor)
    return total / _share(key_mask, factor, x.dtype).clamp(min=1 / factor)


def visible_blocks(key_mask: Tensor, factor: int) -> Tensor:
    """Blocks with at least one visible token: bool [B, N] -> [B, 1, 1, S]."""
    return (_share(key_mask, factor, torch.float32) > 0).mT


def spread(x: Tensor, factor: int, N: int) -> Tensor:
    """Each block's row to all of its tokens: [B, H, S, C] -> [B, H, N, C], tokens outermost in memory."""
    # a block of all tokens may be meant to have more of them than there are
    rows = x.transpose(1, 2).unsqueeze(2).expand(-1, -1, min(factor, N), -1, -1).flatten(1, 2)
    return rows[:, :N].transpose(1, 2)


class _Means(torch.autograd.Function):
    """Autograd would write the gradient in an order of its own, and copy it into the right one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Whole blocks, then the shorter one."""
        ctx.N, ctx.factor = x.shape[2], factor
        pooled = x.new_empty(*x.shape[:2], block_count(x.shape[2], factor), x.shape[3])
        for tokens, blocks in _equal_blocks(x, pooled, factor):
            torch.mean(tokens, 3, out=blocks)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own bag
        """Each token its share, tokens outermost in memory."""
        dx = g.new_empty(g.shape[0], ctx.N, g.shape[1], g.shape[3]).transpose(1, 2)
        for tokens, blocks in _equal_blocks(dx, g, ctx.factor):
            tokens.copy_((blocks / tokens.shape[3]).unsqueeze(3))
        return dx, None


def _equal_blocks(x: Tensor, pooled: Tensor, factor: int) -> list[tuple[Tensor, Tensor]]:
    """Views [B, H, ·, length, C] of tokens, [B, H, ·, C] of their blocks: those of `factor` tokens, and the last if shorter."""
    count, rest = divmod(x.shape[2], factor)
    whole = count * factor
    pairs = [(x[:, :, :whole].unflatten(2, (count, factor)), pooled[:, :, :count])] if count else []
    return [*pairs, (x[:, :, whole:].unsqueeze(2), pooled[:, :, count:])] if rest else pairs


def _share(key_mask: Tensor, factor: int, dtype: torch.dtype) -> Tensor:
    """How much of each block is visible: [B, 1, S, 1]."""
    return means(key_mask[:, None, :, None].to(dtype), factor)
