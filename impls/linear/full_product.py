"""Linear attention over the whole sequence, with a backward of its own.

B batch and heads of k and v folded, N keys, RN queries for R heads of q to each head of k, D query/key width, M value width,
W value width with its column of ones (segments.py).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .feature_map import slope_
from .segments import Segment, accumulator, arithmetic, divide, through_division, whole_segments, width, with_ones


def linear_attention_by_state(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """φ(q_i)ᵀ S / (φ(q_i)ᵀ z + eps), S = Σ_j φ(k_j) v_jᵀ, z = Σ_j φ(k_j): [B, RN, D], [B, N, D], [B, N, M] -> [B, RN, M].

    Katharopoulos et al. 2020, eq. 5-6. Once differentiable; φ(q) and φ(k) are computed again in the backward
    instead of being kept.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _LinearAttention.apply(q, k, v, eps)  # type: ignore[no-untyped-call]
        return out
    return _attend(q, _state(k, v), v.shape[-1], eps)


class _LinearAttention(torch.autograd.Function):
    """The two products with their gradient."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the denominators and the one state."""
        denominators = q.new_empty(*q.shape[:2], 1, dtype=arithmetic(q.dtype))
        state = _state(k, v)
        out = _attend(q, state, v.shape[-1], eps, denominators)
        ctx.save_for_backward(q, k, v, out, denominators, state)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """First dq and the gradient of the state in one walk over the queries; dk and dv in one over the keys."""
        q, k, v, out, denominators, state = ctx.saved_tensors
        dq, dstate = _backward_queries(q, g, out, denominators, state)
        return dq, *_backward_keys(k, v, dstate), None


def _state(k: Tensor, v: Tensor) -> Tensor:
    """Σ_j φ(k_j) [v_j | 1]ᵀ: [B, D, W], summed in the accumulator's dtype, given in that of the arithmetic."""
    B, N, D = k.shape
    state = k.new_zeros(B, D, width(v.shape[-1]), dtype=accumulator(k.dtype))
    for segment in whole_segments(N, B, k.device):
        state += torch.bmm(segment.features(k).mT, with_ones(segment, v))
    return state.to(arithmetic(k.dtype))


def _attend(q: Tensor, state: Tensor, M: int, eps: float, denominators: Tensor | None = None) -> Tensor:
    """The output [B, RN, M]; the denominators [B, RN, 1] are kept where asked."""
    B, N, _ = q.shape
    out = q.new_empty(B, N, M)
    for segment in whole_segments(N, B, q.device):
        divide(segment, torch.bmm(segment.features(q), state), eps, out, denominators)
    return out


def _backward_queries(q: Tensor, g: Tensor, out: Tensor, denominators: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gives dq [B, RN, D] and dL/dstate [B, D, W]."""
    B, N, _ = q.shape
    dq = torch.empty_like(q)
    dstate = torch.zeros_like(state, dtype=accumulator(q.dtype))
    for segment in whole_segments(N, B, q.device):
        gw = through_division(segment, g, out, denominators)
        dstate += _backward_segment(segment, q, gw, state, dq)
        del gw  # before the next one is made
    return dq, dstate.to(arithmetic(q.dtype))


def _backward_segment(segment: Segment, x: Tensor, gw: Tensor, state: Tensor, dx: Tensor) -> Tensor:
    """Write dL/dx of one segment, from φ(x)·state having the gradient gw; give φ(x)ᵀ gw, its part of dL/dstate."""
    phi = segment.features(x)
    dstate = torch.bmm(phi.mT, gw)
    segment.write_product(torch.bmm(gw, state.mT), slope_(phi), dx)
    return dstate


def _backward_keys(k: Tensor, v: Tensor, dstate: Tensor) -> tuple[Tensor, Tensor]:
    """Gives dk [B, N, D] and dv [B, N, M]."""
    B, N, _ = k.shape
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    for segment in whole_segments(N, B, k.device):
        fk = segment.features(k)
        segment.of(dv).copy_(torch.bmm(fk, dstate[..., : v.shape[-1]]))
        segment.write_product(torch.bmm(with_ones(segment, v), dstate.mT), slope_(fk), dk)
        del fk
    return dk, dv
