"""Folding the heads of q that share a head of k with the batch, and means of blocks.

B batch, H heads, K heads of k and v, R = H / K heads that share one, X = B K, N tokens, C complete blocks of L tokens, D
query/key width, M value width.
"""

from torch import Tensor

from ...partial.heads import served


def fold(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fold batch and heads; dense inputs become views.

    [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [X, R, N, D], [X, N, D], [X, N, M]. Raises ValueError where K does
    not divide H.
    """
    R = served(q, k)
    return q.contiguous().view(-1, R, *q.shape[2:]), k.contiguous().flatten(0, 1), v.contiguous().flatten(0, 1)


def block_means(x: Tensor, block: int) -> Tensor:
    """Average each complete block: [..., N, D] -> [..., C, D], C = N // L."""
    count = x.shape[-2] // block
    blocks: Tensor = x[..., : count * block, :].unflatten(-2, (count, block))
    return blocks.mean(-2)
