"""Attention over blocks by its definition: softmax over the keys that a dense mask leaves visible.

B batch, H heads, K heads of k and v, N tokens, S keys, L tokens of a block, E blocks chosen by a query, D query/key width, M
value width.
"""

import torch
from torch import Tensor


def masked_softmax_attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float) -> Tensor:
    """Compute softmax(scale q kᵀ) v over the keys that are seen; a query that sees none gets 0.

    [B, H, N, D], [B, K, S, D], [B, K, S, M], bool [B or 1, K or 1, N, S] -> [B, H, N, M].
    """
    k, v, seen = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v, seen))
    scores_BHNS = (q @ k.mT * scale).masked_fill(~seen, -torch.inf)
    # where a query sees nothing, softmax gives NaN: the two fills keep it out of the output and of gradients
    return scores_BHNS.softmax(-1).masked_fill(~seen, 0) @ v


def chosen_seen(chosen: Tensor, block: int) -> Tensor:
    """Mark the keys of own and chosen blocks that are not later: int [B, K, N, E] (negative: none) -> bool [B, K, N, N]."""
    N = chosen.shape[2]
    i = torch.arange(N, device=chosen.device)
    count = -(-N // block)
    # an additional column takes the writes for absent blocks
    blocks = torch.zeros(*chosen.shape[:3], count + 1, dtype=torch.bool, device=chosen.device)
    blocks.scatter_(3, torch.where(chosen < 0, count, chosen).long(), value=True)
    blocks[..., i, i // block] = True
    return blocks[..., i // block] & (i <= i.unsqueeze(1))


def seen_in_blocks(at: Tensor, chosen: Tensor, block: int, N: int) -> Tensor:
    """Mark the same keys for the queries at tokens `at`: int64 [n], int [N, E] -> bool [n, N]."""
    i, j = at.unsqueeze(1), torch.arange(N, device=at.device)
    own = i // block == j // block
    others = (chosen[at].unsqueeze(2) == j // block).any(1)
    return (own | others) & (j <= i)


def complete_seen(N: int, block: int, device: torch.device) -> Tensor:
    """Mark the blocks that are complete at each token: bool [1, 1, N, C], C = N // L."""
    i, c = torch.arange(N, device=device), torch.arange(N // block, device=device)
    return ((c + 1) * block - 1 <= i.unsqueeze(1))[None, None]


def window_seen(N: int, width: int, device: torch.device) -> Tensor:
    """Mark the last `width` tokens, counting the query's own: bool [1, 1, N, N]."""
    i = torch.arange(N, device=device)
    apart = i.unsqueeze(1) - i
    return ((apart >= 0) & (apart < width))[None, None]
