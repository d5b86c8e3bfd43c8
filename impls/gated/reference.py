"""Gated linear attention by its definition, in dense form.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width; G = 1 or D decays of a token.
"""

import torch
from torch import Tensor

from ..partial.heads import of_each_head


def gated_linear_attention(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """Compute o_i = scale Σ_{j<=i} (Σ_d q_id k_jd exp(C_id - C_jd)) v_j with C the sums of log decays so far.

    This equals S_t = diag(exp(log decay_t)) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ q_t: Sun et al. 2023, eq. 6, with decays by
    token (Dao & Gu 2024, section 5, for G = 1) or by row (Yang et al. 2024, section 4, for G = D). [B, H, N, D], [B, K, N,
    D], [B, K, N, M], log decays [B, K, N, G] or [1, K, 1, G] -> [B, H, N, M]: each head of k, v and decays serves H / K
    neighbouring heads of q. For G = D it holds D numbers for each pair of tokens.
    """
    k, v, log_decay = of_each_head(q, k, v, log_decay)
    left = _left(log_decay, q.shape[2], torch.promote_types(v.dtype, torch.float32)).to(v.dtype)
    one = left.shape[-1] == 1
    weights = (q @ k.mT) * left.squeeze(-1) if one else torch.einsum("bhid,bhjd,bhijd->bhij", q, k, left)
    o: Tensor = scale * weights @ v
    return o


def gated_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head: int64 [n], [N, D] twice, [N, M], [N or 1, G] -> [n, M]."""
    c = log_decay.expand(len(k), -1).cumsum(0, dtype=torch.float64)
    found = []
    for i in at.tolist():
        left = (c[i] - c[: i + 1]).to(v.dtype).exp()
        weights = (k[: i + 1] * left) @ q[i]
        found.append(weights @ v[: i + 1])
    return scale * torch.stack(found)


def _left(log_decay: Tensor, N: int, kind: torch.dtype) -> Tensor:
    """Compute exp(C_i - C_j) for j <= i, else 0: [B, H, N, N, G]."""
    # float64, because every later sum contains what a gate has forgotten, which would leave few digits for differences
    c = log_decay.expand(-1, -1, N, -1).cumsum(2, dtype=torch.float64)
    later = torch.ones(N, N, dtype=torch.bool, device=c.device).triu(1)
    # hidden before the exponential, which could overflow: infinity times 0 would make gradients NaN
    return (c.unsqueeze(3) - c.unsqueeze(2)).masked_fill(later.unsqueeze(-1), -torch.inf).to(kind).exp()
