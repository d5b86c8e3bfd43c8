"""Attention with an adaptive span by its definition, dense.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from .eager.span_mask import soft_mask


def adaptive_span_attention(q: Tensor, k: Tensor, v: Tensor, z: Tensor, ramp: float, nearest: int) -> Tensor:
    """Compute o_i = Σ_j a_ij v_j, a_ij = m_z(i - j) exp(s_ij) / Σ_r m_z(i - r) exp(s_ir), s = q kᵀ / √D.

    Sukhbaatar et al. 2019, section 2.2. Sums are over j, r ≤ i - nearest; a query that sees no key gets 0. [B, H, N, D], [B, H,
    N, D], [B, H, N, M], z [H] -> [B, H, N, M].
    """
    x = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(k.shape[2], device=q.device)
    return _attend(q, k, v, soft_mask(z, ramp, nearest, x))


def adaptive_span_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, ramp: float, nearest: int) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head, z [1]: int64 [n], [N, D] twice, [N, M] -> [n, M]."""
    x = at.unsqueeze(1) - torch.arange(len(k), device=at.device)
    return _attend(q[at], k, v, soft_mask(z, ramp, nearest, x).squeeze(0))


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    hidden = mask == 0
    # hidden before the exponentials, so that none overflows; where a query sees nothing, softmax gives NaN, and the two fills
    # keep it out of the output and of gradients
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
    a = mask.to(q.dtype) * scores.softmax(-1).masked_fill(hidden, 0)
    return (a / a.sum(-1, keepdim=True).masked_fill(hidden.all(-1, keepdim=True), 1)) @ v
