"""The definitions as dense closed forms: all N × N pairs, one triangular system for all tokens.

B batch, H heads, N tokens, D query/key width, M value width, G = 1 or D decays of a token.
"""

import torch
from torch import Tensor


def delta_attention(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None) -> Tensor:
    """O = tril(Q Kᵀ) (I + tril(β K Kᵀ, -1))⁻¹ diag(β) V, each pair times exp(c_i - c_j) where there is a decay.

    Yang et al. 2024 (arXiv:2406.06484), section 3, with one chunk. [B, H, N, D] twice, [B, H, N, M], β [B, H, N], log decay
    [B, H, N] or [B, H, N, D] -> [B, H, N, M], unscaled.
    """
    beta = beta.unsqueeze(-1)
    c = _sums(torch.zeros_like(beta) if log_decay is None else log_decay)
    u = _solve(beta * _met(k, k, c, c), beta * v)
    return _met(q, k, c, c).tril() @ u


def dplr_attention(r: Tensor, k: Tensor, v: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """O = tril(R Kᵀ) V + tril(R Bᵀ) (I - tril(A Bᵀ, -1))⁻¹ tril(A Kᵀ, -1) V.

    Each pair times exp(c_i - c_j), those of A times exp(c_{i-1} - c_j): a reads the state before it decays. All [B, H, N, D],
    v [B, H, N, M] -> [B, H, N, M], unscaled.
    """
    c = _sums(w)
    before = c - w
    p = _solve(-_met(a, b, before, c), _met(a, k, before, c).tril(-1) @ v)
    return _met(r, k, c, c).tril() @ v + _met(r, b, c, c).tril() @ p


def _sums(log_decay: Tensor) -> Tensor:
    """c: [B, H, N] or [B, H, N, G] -> [B, H, N, G], at least float32, since differences of large sums count."""
    x = log_decay if log_decay.dim() == 4 else log_decay.unsqueeze(-1)
    return x.to(_wide(x)).cumsum(2)


def _met(q: Tensor, k: Tensor, at: Tensor, c: Tensor) -> Tensor:
    """Σ_d q_id k_jd exp(at_id - c_jd), right where j <= i: [B, H, N, N]."""
    if c.shape[-1] == 1:
        return (q @ k.mT) * (at - c.mT).clamp(max=0).exp().to(q.dtype)
    out = q.new_zeros(*q.shape[:3], k.shape[2])
    for d in range(q.shape[-1]):
        row = slice(d, d + 1)
        out = out + q[..., row] * k[..., row].mT * (at[..., row] - c[..., row].mT).clamp(max=0).exp().to(q.dtype)
    return out


def _solve(a: Tensor, b: Tensor) -> Tensor:
    """(I + tril(a, -1))⁻¹ b, at least in float32, below which nothing solves."""
    wide: Tensor = torch.linalg.solve_triangular(a.to(_wide(a)), b.to(_wide(b)), upper=False, unitriangular=True)
    return wide.to(b.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32
