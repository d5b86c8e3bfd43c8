"""Causal linear attention by chunks, with a backward of its own.

B batch and heads folded, N tokens, S chunks of L tokens in a segment, D query/key width, M value width, W value width with
its column of ones (segments.py). Between chunks the state φ(k)ᵀ[v | 1] is carried; within one the product is masked.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .feature_map import slope_
from .prefix import states_after, states_before
from .segments import Segment, accumulator, arithmetic, divide, segments, through_division, width, with_ones


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, chunk: int, eps: float) -> Tensor:
    """Σ_{j≤i} φ(q_i)·φ(k_j) v_j / (Σ_{j≤i} φ(q_i)·φ(k_j) + eps): [B, N, D], [B, N, D], [B, N, M] -> [B, N, M].

    Once differentiable. The backward computes everything again from the inputs, the output, its denominators and
    one state a segment (Katharopoulos et al. 2020, eq. 13-15), so that nothing quadratic or per chunk is kept.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _CausalLinearAttention.apply(q, k, v, chunk, eps)  # type: ignore[no-untyped-call]
        return out
    return _attend(q, k, v, segments(q.shape[1], q.shape[0], chunk, q.device), eps)


class _CausalLinearAttention(torch.autograd.Function):
    """The product with its gradient. Autograd would keep every chunk's scores and states instead."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunk: int, eps: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the denominators and the state before each segment."""
        B, N, D = q.shape
        ctx.segments = segments(N, B, chunk, q.device)
        denominators = q.new_empty(B, N, 1, dtype=arithmetic(q.dtype))
        states = q.new_empty(len(ctx.segments), B, D, width(v.shape[-1]), dtype=accumulator(q.dtype))
        out = _attend(q, k, v, ctx.segments, eps, (denominators, states))
        ctx.save_for_backward(q, k, v, out, denominators, states)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """One walk from the last segment to the first, carrying Σ φ(q)ᵀ dL/d[numerator | denominator]."""
        q, k, v, out, denominators, states = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        after = torch.zeros_like(states[0])
        for segment, state in reversed(list(zip(ctx.segments, states, strict=True))):
            gw = through_division(segment, g, out, denominators)
            # a clone, for the walk moves it on, and a second backward needs what was saved
            _backward(segment, (q, k, v), gw, (state.clone(), after), (dq, dk, dv))
        return dq, dk, dv, None, None


def _attend(
    q: Tensor, k: Tensor, v: Tensor, parts: list[Segment], eps: float, keep: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """The output; where `keep` is given, the denominators [B, N, 1] and the states [segments, B, D, W] are written there."""
    denominators, states = keep or (None, None)
    out = torch.empty_like(v)
    state = q.new_zeros(q.shape[0], q.shape[2], width(v.shape[2]), dtype=accumulator(q.dtype))
    for i, segment in enumerate(parts):
        if states is not None:
            states[i] = state
        divide(segment, _sums(segment, q, k, v, state), eps, out, denominators)
    return out


def _sums(segment: Segment, q: Tensor, k: Tensor, v: Tensor, state: Tensor) -> Tensor:
    """Numerator and denominator of one segment [BS, L, W]; `state` [B, D, W] moves past it, in place."""
    fq, fk, va = segment.features(q), segment.features(k), with_ones(segment, v)
    met = states_before(torch.bmm(fk.mT, va), state)
    return torch.bmm(torch.bmm(fq, fk.mT).tril_(), va).baddbmm_(fq, met)


def _backward(
    segment: Segment,
    inputs: tuple[Tensor, Tensor, Tensor],
    gw: Tensor,
    states: tuple[Tensor, Tensor],
    gradients: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Write one segment of dq, dk and dv; both states [B, D, W] move past it, in place.

    gw [BS, L, W] is dL/d[numerator | denominator]. Katharopoulos et al. 2020, eq. 13-15, by chunks, with v widened by
    the ones: dφ(q_i) = Σ_{j≤i} (gw_i·va_j) φ(k_j), dφ(k_j) = Σ_{i≥j} (gw_i·va_j) φ(q_i), dv_j = Σ_{i≥j} (φ(q_i)·φ(k_j)) gw_i.
    """
    q, k, v = inputs
    fq, fk, va = segment.features(q), segment.features(k), with_ones(segment, v)
    before, after = states_before(torch.bmm(fk.mT, va), states[0]), states_after(torch.bmm(fq.mT, gw), states[1])
    pairs = torch.bmm(gw, va.mT).tril_()
    dfq = torch.bmm(pairs, fk).baddbmm_(gw, before.mT)
    dfk = torch.bmm(pairs.mT, fq).baddbmm_(va, after.mT)
    pairs = torch.bmm(fq, fk.mT).tril_()
    M = v.shape[-1]
    dv = torch.bmm(pairs.mT, gw[..., :M]).baddbmm_(fk, after[..., :M])
    segment.write_product(dfq, slope_(fq), gradients[0])
    segment.write_product(dfk, slope_(fk), gradients[1])
    segment.of(gradients[2]).copy_(dv.view_as(segment.of(v)))
