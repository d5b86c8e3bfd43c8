"""Heads of queries that share a state: one head of k and v has one state, and each head of q that it serves reads it.

B, b batch, H heads of q, K heads of k and v, R = H / K neighbouring heads of q that read one state, X = B K states, N tokens, S
chunks of L tokens. In a chunk the rows of these heads lie one head after the other, [S, X, R L, ·], so that one product reads
the state for all of them, and one product over the rows adds up their gradients.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def by_state(x: Tensor, kv_heads: int) -> Tensor:
    """Fold heads by the state that they belong to: [B, H or K, N, ·] -> [X, R or 1, N, ·]."""
    if x.shape[1] == kv_heads:
        return x.flatten(0, 1).unsqueeze(1)
    folded: Tensor = x.unflatten(1, (kv_heads, -1)).flatten(0, 1)
    return folded


def of_one_token(x: Tensor, kv_heads: int) -> Tensor:
    """View the heads of one token by the state that they belong to: [b, H or K, 1, ·] -> [b, K, R or 1, ·]."""
    return x if x.shape[1] == kv_heads else x.view(x.shape[0], kv_heads, -1, x.shape[-1])


def one_token_of(o: Tensor, heads: int) -> Tensor:
    """Undo `of_one_token`: [b, K, R, ·] -> [b, H, 1, ·]."""
    return o if o.shape[1] == heads else o.view(o.shape[0], heads, 1, o.shape[-1])


def each_head(x: Tensor, of_tokens: Tensor) -> Tensor:
    """Multiply the rows of each head by what belongs to their tokens: [S, X, R L, C], [S or 1, X, L, C or 1] -> [S, X, R L, C].

    The result is dense, even where x is a view of rows that are not: one pass for both. Differentiable once.
    """
    product: Tensor = _EachHead.apply(x, of_tokens)  # type: ignore[no-untyped-call]
    return product


class _EachHead(torch.autograd.Function):
    """`each_head` with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, of_tokens: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Multiply into memory of its own."""
        ctx.save_for_backward(x, of_tokens)
        return _times(x, of_tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ANN401 - torch's own bag
        """Multiply by the other factor; what belongs to a token adds up over heads, and over columns where it is one."""
        x, of_tokens = ctx.saved_tensors
        dx = _times(g, of_tokens) if ctx.needs_input_grad[0] else None
        dof = over_heads(g * x, of_tokens.shape[2]).sum_to_size(of_tokens.shape) if ctx.needs_input_grad[1] else None
        return dx, dof


def _times(x: Tensor, of_tokens: Tensor) -> Tensor:
    product = torch.empty_like(x, memory_format=torch.contiguous_format)
    L = of_tokens.shape[2]
    if x.shape[2] == L:
        return torch.mul(x, of_tokens, out=product)
    torch.mul(_apart(x, L), of_tokens.unsqueeze(2), out=_apart(product, L))
    return product


def each_head_(x: Tensor, of_tokens: Tensor) -> Tensor:
    """Do what `each_head` does in the memory of x, which is contiguous, where autograd does not need x."""
    if x.requires_grad:
        return each_head(x, of_tokens)
    L = of_tokens.shape[2]
    if x.shape[2] == L:
        return x.mul_(of_tokens)
    _apart(x, L).mul_(of_tokens.unsqueeze(2))
    return x


def lower_(scores: Tensor, diagonal: int = 0) -> Tensor:
    """Set the scores of each head with later tokens to zero: [S, X, R L, L]; in place where autograd does not need them."""
    L = scores.shape[-1]
    heads = scores if scores.shape[2] == L else _apart(scores, L)
    # in place is five times faster
    lower = heads.tril(diagonal) if scores.requires_grad else heads.tril_(diagonal)
    return lower.view(scores.shape)


def over_heads(x: Tensor, L: int) -> Tensor:
    """Sum rows over heads: [S, X, R L, ·] -> [S, X, L, ·]."""
    return x if x.shape[2] == L else _apart(x, L).sum(2)


def _apart(x: Tensor, L: int) -> Tensor:
    """View the rows of each head apart: [S, X, R L, ·] -> [S, X, R, L, ·]."""
    heads: Tensor = x.unflatten(2, (-1, L))
    return heads
