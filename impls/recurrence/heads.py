"""Heads of queries that share a state: one head of k and v has one state, and each head of q that it serves reads it.

B, b batch, H heads of q, K heads of k and v, R = H / K neighbouring heads of q that read one state, X = B K states, N tokens, S
chunks of L tokens. In a chunk the rows of these heads lie one head after the other, [X, S, R L, ·], so that one product reads
the state for all of them, and one product over the rows adds up their gradients.
"""

from torch import Tensor


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
    """Multiply the rows of each head by what belongs to their tokens: [X, S, R L, ·], [X, S or 1, L, ·] -> [X, S, R L, ·]."""
    L = of_tokens.shape[2]
    return x * of_tokens if x.shape[2] == L else (_apart(x, L) * of_tokens.unsqueeze(2)).flatten(2, 3)


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
    """Set the scores of each head with later tokens to zero: [X, S, R L, L]; in place where autograd does not need them."""
    L = scores.shape[-1]
    heads = scores if scores.shape[2] == L else _apart(scores, L)
    # in place is five times faster
    lower = heads.tril(diagonal) if scores.requires_grad else heads.tril_(diagonal)
    return lower.view(scores.shape)


def over_heads(x: Tensor, L: int) -> Tensor:
    """Sum rows over heads: [X, S, R L, ·] -> [X, S, L, ·]."""
    return x if x.shape[2] == L else _apart(x, L).sum(2)


def _apart(x: Tensor, L: int) -> Tensor:
    """View the rows of each head apart: [X, S, R L, ·] -> [X, S, R, L, ·]."""
    heads: Tensor = x.unflatten(2, (-1, L))
    return heads
