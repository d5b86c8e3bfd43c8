"""Gated linear attention as it is defined: the dense form.

B batch, H heads, N tokens, D query/key width, M value width; G = 1 or D decays of a token.
"""

import torch
from torch import Tensor


def gated_linear_attention(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """o_i = scale Σ_{j<=i} (Σ_d q_id k_jd exp(C_id - C_jd)) v_j with C the sums of log decays so far.

    What S_t = diag(exp(log decay_t)) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ q_t amounts to: Sun et al. 2023, eq. 5, with decays
    of tokens (Dao & Gu 2024, section 5, for G = 1) and of rows (Yang et al. 2024, section 4, for G = D). [B, H, N, D] twice,
    [B, H, N, M], log decays [B, H, N, G] or [1, H, 1, G] -> [B, H, N, M]. For G = D it holds D numbers for each pair of tokens.
    """
    left = _left(log_decay, q.shape[2], torch.promote_types(v.dtype, torch.float32)).to(v.dtype)
    one = left.shape[-1] == 1
    weights = (q @ k.mT) * left.squeeze(-1) if one else torch.einsum("bhid,bhjd,bhijd->bhij", q, k, left)
    o: Tensor = scale * weights @ v
    return o


def gated_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """The same for the queries at tokens `at`, of one head: int64 [n], [N, D] twice, [N, M], [N or 1, G] -> [n, M]."""
    c = log_decay.expand(len(k), -1).cumsum(0, dtype=torch.float64)
    found = []
    for i in at.tolist():
        left = (c[i] - c[: i + 1]).to(v.dtype).exp()
        weights = (k[: i + 1] * left) @ q[i]
        found.append(weights @ v[: i + 1])
    return scale * torch.stack(found)


def _left(log_decay: Tensor, N: int, kind: torch.dtype) -> Tensor:
    """exp(C_i - C_j) for j <= i, else 0: [B, H, N, N, G]."""
    # in float64: what a gate has forgotten stays in all later sums, whose differences would have few digits
    c = log_decay.expand(-1, -1, N, -1).cumsum(2, dtype=torch.float64)
    later = torch.ones(N, N, dtype=torch.bool, device=c.device).triu(1)
    # hidden before the exponential, which would overflow: infinity times 0 is no gradient
    return (c.unsqueeze(3) - c.unsqueeze(2)).masked_fill(later.unsqueeze(-1), -torch.inf).to(kind).exp()
