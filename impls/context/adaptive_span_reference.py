"""Attention with an adaptive span as it is defined: dense.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from .span_mask import soft_mask


def adaptive_span_attention(q: Tensor, k: Tensor, v: Tensor, z: Tensor, ramp: float) -> Tensor:
    """Sukhbaatar et al. 2019, section 2.2: a_ij = m_z(i - j) exp(s_ij) / Σ_r m_z(i - r) exp(s_ir), o_i = Σ_j a_ij v_j.

    s = q kᵀ / √D. [B, H, N, D], [B, H, N, D], [B, H, N, M], z [H] -> [B, H, N, M].
    """
    x = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(k.shape[2], device=q.device)
    mask = soft_mask(z, ramp, x)
    # hidden before the exponentials, so that none overflows where it is multiplied by 0
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(mask == 0, -math.inf)
    a = mask.to(q.dtype) * scores.softmax(-1)
    return (a / a.sum(-1, keepdim=True)) @ v


def adaptive_span_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, ramp: float) -> Tensor:
    """The same for the queries at tokens `at`, of one head, z [1]: int64 [n], [N, D] twice, [N, M] -> [n, M]."""
    mask = soft_mask(z, ramp, at.unsqueeze(1) - torch.arange(len(k), device=at.device)).squeeze(0)
    scores = (q[at] @ k.mT / math.sqrt(q.shape[-1])).masked_fill(mask == 0, -math.inf)
    a = mask.to(q.dtype) * scores.softmax(-1)
    return (a / a.sum(-1, keepdim=True)) @ v
