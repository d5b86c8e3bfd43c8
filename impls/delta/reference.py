"""The definitions as dense closed forms: all N × N pairs, and one triangular system for all tokens.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width, G = 1 or D decays of a token.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..partial.heads import of_each_head

Rows = tuple[Tensor, ...]
"""Inputs of some tokens of one head, each [·, D], [·, M] or [·, G]."""
Walk = Callable[[Rows, Tensor], tuple[Tensor, Tensor]]
"""Function from the inputs of some tokens and the state before them to their outputs and the state after them."""
_TOGETHER, _STRETCH = 16, 1024


def delta_attention(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None) -> Tensor:
    """Compute O = tril(Q Kᵀ) (I + tril(β K Kᵀ, -1))⁻¹ diag(β) V, with pairs multiplied by exp(c_i - c_j) under a decay.

    Yang et al. 2024 (arXiv:2406.06484), section 3, with one chunk. [B, H, N, D], [B, K, N, D], [B, K, N, M], β [B, K, N], log
    decay [B, K, N] or [B, K, N, D] -> [B, H, N, M], unscaled.
    """
    beta = beta.unsqueeze(-1)
    return corrected_attention(q, k, beta * v, beta * k, torch.zeros_like(beta) if log_decay is None else log_decay)


def corrected_attention(q: Tensor, k: Tensor, v: Tensor, removed: Tensor, log_decay: Tensor, *, early: bool = False) -> Tensor:
    """Compute O = tril(Q Kᵀ) (I + tril(E Kᵀ, -1))⁻¹ V, E being what is removed, with pairs multiplied by exp(c_i - c_j).

    So S_t = Diag(α_t) S_{t-1} + k_t (v_t - (Diag(α_t) S_{t-1})ᵀ e_t)ᵀ; where it reads `early`, e_t reads S_{t-1} before it
    decays. [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, K, N, D], log decay [B, K, N] or [B, K, N, D] or a column -> [B, H, N,
    M], unscaled; each head of all but Q serves H / K neighbouring heads of Q.
    """
    k, v, removed, log_decay = of_each_head(q, k, v, removed, log_decay)
    c = _sums(log_decay)
    at = c - log_decay.view(c.shape) if early else c
    return _met(q, k, c, c).tril() @ _solve(_met(removed, k, at, c), v)


def dplr_attention(r: Tensor, k: Tensor, v: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Compute O = tril(R Kᵀ) V + tril(R Bᵀ) (I - tril(A Bᵀ, -1))⁻¹ tril(A Kᵀ, -1) V.

    Pairs are multiplied by exp(c_i - c_j), those of A by exp(c_{i-1} - c_j), because a reads the state before it decays. r
    [B, H, N, D], v [B, K, N, M], all others [B, K, N, D] -> [B, H, N, M], unscaled; each head of all but r serves H / K
    neighbouring heads of r.
    """
    k, v, w, a, b = of_each_head(r, k, v, w, a, b)
    c = _sums(w)
    before = c - w
    p = _solve(-_met(a, b, before, c), _met(a, k, before, c).tril(-1) @ v)
    return _met(r, k, c, c).tril() @ v + _met(r, b, c, c).tril() @ p


def delta_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None) -> Tensor:
    """Compute the recurrence of one head and return tokens `at`.

    Int64 [n], [N, D] twice, [N, M], [N], [N] or [N, D] -> [n, M], unscaled. S_t = (I - β_t k_t k_tᵀ) Diag(α_t) S_{t-1} + β_t
    k_t v_tᵀ, o_t = S_tᵀ q_t, a few tokens at a time: u_t, what they write at k_t, solves the same triangular system as above,
    with the state before them on its right-hand side.
    """
    beta = beta.unsqueeze(-1)
    return corrected_rows(at, q, k, beta * v, beta * k, torch.zeros_like(beta) if log_decay is None else log_decay)


def corrected_rows(
    at: Tensor, q: Tensor, k: Tensor, v: Tensor, removed: Tensor, log_decay: Tensor, *, early: bool = False
) -> Tensor:
    """Compute the recurrence of `corrected_attention` for one head, a few tokens at a time, and return tokens `at`."""

    def walk(some: Rows, state: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v, removed, g = some
        c = g.cumsum(0)
        reads_at = c - g if early else c
        u = _solve(_near(removed, k, reads_at, c), v - (removed * reads_at.exp()) @ state)
        o = (q * c.exp()) @ state + _near(q, k, c, c).tril() @ u
        return o, state * c[-1].exp().unsqueeze(-1) + (k * (c[-1] - c).exp()).mT @ u

    return _walked(walk, (q, k, v, removed, log_decay.view(len(q), -1)), at)


def dplr_rows(at: Tensor, r: Tensor, k: Tensor, v: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Compute the recurrence of one head and return tokens `at`: int64 [n], all [N, D] but v [N, M] -> [n, M], unscaled.

    S_t = (Diag(exp w_t) + b_t a_tᵀ) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ r_t, where p_t = S_{t-1}ᵀ a_t solves a triangular system of
    a few tokens.
    """

    def walk(some: Rows, state: Tensor) -> tuple[Tensor, Tensor]:
        r, k, v, w, a, b = some
        c = w.cumsum(0)
        before = c - w
        given = (a * before.exp()) @ state + _near(a, k, before, c).tril(-1) @ v
        p = _solve(-_near(a, b, before, c), given)
        o = (r * c.exp()) @ state + _near(r, k, c, c).tril() @ v + _near(r, b, c, c).tril() @ p
        left = (c[-1] - c).exp()
        return o, state * c[-1].exp().unsqueeze(-1) + (k * left).mT @ v + (b * left).mT @ p

    return _walked(walk, (r, k, v, w, a, b), at)


class _Walked(torch.autograd.Function):
    """`walk` over all tokens, a few together, with a gradient that holds the graph of one stretch at a time."""

    @staticmethod
    def forward(ctx: Any, walk: Walk, *inputs: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Compute the outputs, and keep the state before each stretch."""
        state, outputs, ctx.walk, ctx.met = inputs[2].new_zeros(inputs[0].shape[1], inputs[2].shape[1]), [], walk, []
        for some in zip(*(x.split(_STRETCH) for x in inputs), strict=True):
            ctx.met.append(state)
            o, state = _stretch(walk, state, some)
            outputs.append(o)
        ctx.save_for_backward(*inputs)
        return torch.cat(outputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute gradients from the last stretch to the first, walking each once more."""
        stretches = list(zip(*(x.split(_STRETCH) for x in (g, *ctx.saved_tensors)), strict=True))
        slope, found = torch.zeros_like(ctx.met[0]), []
        for (part, *some), met in zip(reversed(stretches), reversed(ctx.met), strict=True):
            leaves = [x.detach().requires_grad_() for x in (met, *some)]
            with torch.enable_grad():
                slope, *gradients = torch.autograd.grad(_stretch(ctx.walk, leaves[0], leaves[1:]), leaves, (part, slope))
            found.append(gradients)
        return None, *(torch.cat(parts) for parts in zip(*reversed(found), strict=True))


def _stretch(walk: Walk, state: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    outputs = []
    for some in zip(*(x.split(_TOGETHER) for x in inputs), strict=True):
        o, state = walk(some, state)
        outputs.append(o)
    return torch.cat(outputs), state


def _walked(walk: Walk, inputs: Rows, at: Tensor) -> Tensor:
    """Walk from the first token to the last of `at`, and return those."""
    last = int(at.max()) + 1
    o: Tensor = _Walked.apply(walk, *(x[:last] for x in inputs))  # type: ignore[no-untyped-call]
    return o[at]


def _near(q: Tensor, k: Tensor, at: Tensor, c: Tensor) -> Tensor:
    """Compute `_met` for a few tokens of one head, all rows of the state at once: [L, L]."""
    if c.shape[-1] == 1:
        return (q @ k.mT) * (at - c.mT).clamp(max=0).exp()
    return (q.unsqueeze(1) * k * (at.unsqueeze(1) - c).clamp(max=0).exp()).sum(-1)


def _sums(log_decay: Tensor) -> Tensor:
    """Sum up log decays: [B, H, N] or [B, H, N, G] -> c [B, H, N, G], in float64.

    Every later sum contains what a gate has forgotten, so float32 would leave few digits for differences.
    """
    return (log_decay if log_decay.dim() == 4 else log_decay.unsqueeze(-1)).cumsum(2, dtype=torch.float64)


def _met(q: Tensor, k: Tensor, at: Tensor, c: Tensor) -> Tensor:
    """Compute Σ_d q_id k_jd exp(at_id - c_jd): [B, H, N, N], right only where j <= i."""
    if c.shape[-1] == 1:
        return (q @ k.mT) * (at - c.mT).clamp(max=0).to(_wide(q)).exp().to(q.dtype)
    out = q.new_zeros(*q.shape[:3], k.shape[2])
    for d in range(q.shape[-1]):
        row = slice(d, d + 1)
        out = out + q[..., row] * k[..., row].mT * (at[..., row] - c[..., row].mT).clamp(max=0).to(_wide(q)).exp().to(q.dtype)
    return out


def _solve(a: Tensor, b: Tensor) -> Tensor:
    """Compute (I + tril(a, -1))⁻¹ b in float32 at least, since torch solves in no half precision."""
    wide: Tensor = torch.linalg.solve_triangular(a.to(_wide(a)), b.to(_wide(b)), upper=False, unitriangular=True)
    return wide.to(b.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
