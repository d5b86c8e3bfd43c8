"""Softmax attention as it is defined: dense, slow, obviously right.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """softmax(q kᵀ / √D) v; where causal, over j ≤ i only.

    Vaswani et al. 2017, eq. 1. [B, H, N, D], [B, kv_heads, N, D], [B, kv_heads, N, M] -> [B, H, N, M];
    each head of k and v serves H / kv_heads neighbouring heads of q (Ainslie et al. 2023, section 2.2).
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores_BHNN = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        later_NN = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        scores_BHNN = scores_BHNN.masked_fill(later_NN, -math.inf)
    return scores_BHNN.softmax(-1) @ v
