"""Sparse attention by its definition: softmax over the keys that a mask shows.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor


def masked_softmax_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, sinks: Tensor | None = None) -> Tensor:
    """Compute softmax(q kᵀ / √D) v over the keys that are seen: Child et al. 2019, eq. 2-3; a query that sees none gets 0.

    [B, H, N, D], [B, kv_heads, N, D], [B, kv_heads, N, M], bool [H, N, N] -> [B, H, N, M]; each head of k and v serves H /
    kv_heads neighbouring heads of q. `sinks` [H] are one more score for each head, whose weight goes to nothing.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores_BHNN = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf)
    if sinks is not None:
        column = sinks.to(scores_BHNN.dtype).view(-1, 1, 1).expand(*scores_BHNN.shape[:3], 1)
        return torch.cat((scores_BHNN, column), -1).softmax(-1)[..., :-1] @ v
    # where a query sees nothing, softmax gives NaN: the two fills keep it out of the output and of gradients
    return scores_BHNN.softmax(-1).masked_fill(~mask, 0) @ v
