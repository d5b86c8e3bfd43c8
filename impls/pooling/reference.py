"""Attention over pooled keys, and of pooled queries, by its definition: dense, with the averaging as a matrix.

B batch, H heads, K heads of k and v, N tokens, S blocks, Q queries, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor


def averaging(N: int, factor: int, like: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Build P_sj = 1 / |block s| for visible j in block s, else 0: [1, 1, S, N], or [B, 1, S, N] with a key_mask [B, N]."""
    blocks = torch.arange(-(-N // factor), device=like.device)[:, None]
    member = (torch.arange(N, device=like.device) // factor == blocks)[None, None]
    if key_mask is not None:
        member = member & key_mask[:, None, None, :]
    return member.to(like.dtype) / member.sum(-1, keepdim=True).clamp(min=1)


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    """Compute softmax(q kᵀ / √D) v, Vaswani et al. 2017, eq. 1, over the keys that are `seen`, bool [B, 1, 1, S].

    [B, H, Q, D], [B, K, S, D], [B, K, S, M] -> [B, H, Q, M]; each head of k and v serves H / K neighbouring heads of q.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if seen is None:
        return scores.softmax(-1) @ v
    # where a query sees nothing, softmax gives NaN: the two fills keep it out of the output and of gradients
    return scores.masked_fill(~seen, -math.inf).softmax(-1).masked_fill(~seen, 0) @ v


def averages(x: Tensor, factor: int, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Average the blocks of one head over visible tokens (key_mask [N]): [N, C] -> [S, C], and their numbers, [S, 1]."""
    shown = x.new_ones(len(x), 1) if key_mask is None else key_mask.to(x.dtype).unsqueeze(1)
    block = torch.arange(len(x), device=x.device) // factor
    S = -(-len(x) // factor)
    counts = x.new_zeros(S, 1).index_add(0, block, shown)
    return x.new_zeros(S, x.shape[1]).index_add(0, block, x * shown) / counts.clamp(min=1), counts
