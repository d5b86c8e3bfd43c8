"""Attention in which each head has its own span, and a gradient of it.

B batch, H heads, N tokens, R ramp (in formulas), D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import sums
from .sliding import Inputs, empty_result, slide, slide_back
from .sliding_tiles import turns
from .span_mask import log_mask, ramp_distances


@dataclass(frozen=True)
class Form:
    """The ramp R of all masks, the factor for scores, and the least distance at which a key is seen: 1, or 0."""

    ramp: float
    scale: float
    nearest: int

    def pairs(self, q: Tensor, k: Tensor, v: Tensor) -> Inputs:
        """Select the queries [B, H, n, D] that may see a key, and the keys and values that may be seen, aligned by distance."""
        n = q.shape[2] - self.nearest
        return q[:, :, self.nearest :], k[:, :, :n], v[:, :, :n]


def span_attention(q: Tensor, k: Tensor, v: Tensor, z: Tensor, form: Form) -> Tensor:
    """Compute Σ_j m_z(i - j) exp(s_ij) v_j / Σ_j m_z(i - j) exp(s_ij), j ≤ i - nearest; 0 for a query that sees no key.

    [B, H, N, D], [B, H, N, D], [B, H, N, M], z [H] -> [B, H, N, M]. Each head computes only the keys at which its mask is above
    0; the host reads z. Differentiable once.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, z)):
        o: Tensor = _SpanAttention.apply(q, k, v, z, form)  # type: ignore[no-untyped-call]
        return o
    return _forward((q, k, v), z.tolist(), form)[0]


class _SpanAttention(torch.autograd.Function):
    """`span_attention` with its gradient: keeps the output and its logsumexp, and computes the scores again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, z: Tensor, form: Form) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        ctx.spans, ctx.form = z.tolist(), form
        out, logsumexp = _forward((q, k, v), ctx.spans, form)
        ctx.save_for_backward(q, k, v, out, logsumexp)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute the gradients of q, k, v and z, head after head."""
        q, k, v, out, logsumexp = ctx.saved_tensors
        return *_backward(g, (q, k, v), (out, logsumexp), ctx.spans, ctx.form), None


def _forward(inputs: Inputs, spans: list[float], form: Form) -> tuple[Tensor, Tensor]:
    """Compute the output [B, H, N, M] and its logsumexp [B, H, N]."""
    out, logsumexp = empty_result(inputs[0], inputs[2])
    # the first token sees nothing where it does not see itself
    out[:, :, : form.nearest], logsumexp[:, :, : form.nearest] = 0, -torch.inf
    q, k, v = form.pairs(*inputs)
    final = out[:, :, form.nearest :], logsumexp[:, :, form.nearest :]
    for turn in turns(*out.shape[:3]):
        penalty = log_mask(spans[turn[1]], form.ramp, out.shape[2], form.nearest, q)
        if len(penalty):
            slide((q[turn], k[turn], v[turn]), penalty, form.scale, (final[0][turn], final[1][turn]))
        else:
            final[0][turn], final[1][turn] = 0, -torch.inf
    return out, logsumexp


def _backward(
    g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], spans: list[float], form: Form
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute dL/dq, dL/dk, dL/dv, and dL/dz [H]."""
    wide, N = sums(g.dtype), g.shape[2]
    whole = tuple(torch.zeros_like(x, dtype=wide) for x in inputs)
    dz = torch.zeros(len(spans), dtype=wide, device=g.device)
    (q, k, v), (dq, dk, dv) = form.pairs(*inputs), form.pairs(*whole)
    g, out, logsumexp = (x[:, :, form.nearest :] for x in (g, *final))
    for turn in turns(*inputs[0].shape[:3]):
        z, seen, known = spans[turn[1]], (q[turn], k[turn], v[turn]), (out[turn], logsumexp[turn])
        penalty = log_mask(z, form.ramp, N, form.nearest, q)
        if len(penalty):
            slide_back(g[turn], seen, known, penalty, form.scale, (dq[turn], dk[turn], dv[turn]))
            dz[turn[1]] += _to_span(g[turn], seen, known, z, form)
    dq, dk, dv = (x.to(like.dtype) for x, like in zip(whole, inputs, strict=True))
    return dq, dk, dv, dz.to(q.dtype)


def _to_span(g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], z: float, form: Form) -> Tensor | float:
    """Compute dL/dz of one head: Σ_ij exp(s_ij - lse_i) (g_i·v_j - g_i·o_i) / R over the keys within the ramp.

    With o' and lse' the attention over those keys alone, unmasked, this is Σ_i exp(lse'_i - lse_i) g_i·(o'_i - o_i) / R: again
    a window, for queries from the first that has such a key.
    """
    q, k, v = inputs
    n = q.shape[1]
    first, count = ramp_distances(z, form.ramp, n + form.nearest, form.nearest)
    if not count:
        return 0.0
    skipped = first - form.nearest
    g, q, o, logsumexp = (x[:, skipped:] for x in (g, q, *final))
    ramp, share = empty_result(q, v)
    slide((q, k[:, : n - skipped], v[:, : n - skipped]), share.new_zeros(count), form.scale, (ramp, share))
    share.sub_(logsumexp).exp_()
    return share.mul_(ramp.sub_(o).mul_(g).sum(-1, dtype=share.dtype)).sum() / form.ramp
