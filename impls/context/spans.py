"""Attention in which each head has a span of its own, with a gradient to it.

B batch, H heads, N tokens, R ramp (in formulas), D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..partial.softmax import sums
from .sliding import Inputs, empty_result, slide, slide_back
from .sliding_tiles import turns
from .span_mask import log_mask, ramp_distances


@dataclass(frozen=True)
class Form:
    """The ramp R of all masks, and what scores are multiplied by."""

    ramp: float
    scale: float


def span_attention(q: Tensor, k: Tensor, v: Tensor, z: Tensor, form: Form) -> Tensor:
    """Σ_j m_z(i - j) exp(s_ij) v_j over the sum of the weights, j ≤ i: [B, H, N, D] twice, [B, H, N, M], z [H] -> [B, H, N, M].

    Each head computes only the keys at which its mask is above 0; z is read by the host. Once differentiable.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, z)):
        o: Tensor = _SpanAttention.apply(q, k, v, z, form)  # type: ignore[no-untyped-call]
        return o
    return _forward((q, k, v), z.tolist(), form)[0]


class _SpanAttention(torch.autograd.Function):
    """Keeps the output and its logsumexp, and computes the scores again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, z: Tensor, form: Form) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend."""
        ctx.spans, ctx.form = z.tolist(), form
        out, logsumexp = _forward((q, k, v), ctx.spans, form)
        ctx.save_for_backward(q, k, v, out, logsumexp)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Head after head."""
        q, k, v, out, logsumexp = ctx.saved_tensors
        return *_backward(g, (q, k, v), (out, logsumexp), ctx.spans, ctx.form), None


def _forward(inputs: Inputs, spans: list[float], form: Form) -> tuple[Tensor, Tensor]:
    """The output [B, H, N, M] and its logsumexp [B, H, N]."""
    q, k, v = inputs
    final = empty_result(q, v)
    for turn in turns(*q.shape[:3]):
        penalty = log_mask(spans[turn[1]], form.ramp, q.shape[2], q)
        slide((q[turn], k[turn], v[turn]), penalty, form.scale, (final[0][turn], final[1][turn]))
    return final


def _backward(
    g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], spans: list[float], form: Form
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dL/dq, dL/dk, dL/dv, and dL/dz [H]."""
    q, k, v = inputs
    wide = sums(q.dtype)
    dq, dk, dv = torch.empty_like(q, dtype=wide), torch.zeros_like(k, dtype=wide), torch.zeros_like(v, dtype=wide)
    dz = torch.zeros(len(spans), dtype=wide, device=q.device)
    for turn in turns(*q.shape[:3]):
        z, seen, known = spans[turn[1]], (q[turn], k[turn], v[turn]), (final[0][turn], final[1][turn])
        penalty = log_mask(z, form.ramp, q.shape[2], q)
        slide_back(g[turn], seen, known, penalty, form.scale, (dq[turn], dk[turn], dv[turn]))
        dz[turn[1]] += _to_span(g[turn], seen, known, z, form)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dz.to(q.dtype)


def _to_span(g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], z: float, form: Form) -> Tensor | float:
    """dL/dz of one head: Σ_ij exp(s_ij - lse_i) (g_i·v_j - g_i·o_i) / R over the keys within the ramp.

    With o' and lse' the attention over those keys alone, unmasked, that is Σ_i exp(lse'_i - lse_i) g_i·(o'_i - o_i) / R: a
    window again, of queries from the first that has such a key.
    """
    q, k, v = inputs
    N = q.shape[1]
    first, count = ramp_distances(z, form.ramp, N)
    if not count:
        return 0.0
    g, q, o, logsumexp = (x[:, first:] for x in (g, q, *final))
    ramp, share = empty_result(q, v)
    slide((q, k[:, : N - first], v[:, : N - first]), share.new_zeros(count), form.scale, (ramp, share))
    share.sub_(logsumexp).exp_()
    return share.mul_(ramp.sub_(o).mul_(g).sum(-1, dtype=share.dtype)).sum() / form.ramp
