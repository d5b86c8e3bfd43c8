"""Softmax attention by its definition: dense and slow.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from ..partial.heads import of_each_head


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
    """Compute softmax(q kᵀ / √D) v, if causal over j ≤ i only.

    Vaswani et al. 2017, eq. 1. [B, H, N, D], [B, kv_heads, N, D], [B, kv_heads, N, M] -> [B, H, N, M]; each head of k and v
    serves H / kv_heads neighbouring heads of q (Ainslie et al. 2023, section 2.2). Keys where key_mask, bool [B, N], is False
    do not exist; a query that sees no key gets 0.
    """
    k, v = of_each_head(q, k, v)
    scores_BHNN = q @ k.mT / math.sqrt(q.shape[-1])
    hidden_BHNN = torch.zeros(1, 1, q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if causal:
        hidden_BHNN = torch.ones_like(hidden_BHNN).triu(1)
    if key_mask is not None:
        hidden_BHNN = hidden_BHNN | ~key_mask[:, None, None, :]
    weights_BHNN = scores_BHNN.masked_fill(hidden_BHNN, -math.inf).softmax(-1)
    # where a query sees nothing, softmax gives NaN: the two fills keep it out of the output and of gradients
    return weights_BHNN.masked_fill(hidden_BHNN, 0) @ v
