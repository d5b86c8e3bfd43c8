"""Linear attention over the whole sequence, with its own backward.

B batch and heads of k and v folded, N keys, RN queries for R heads of q to each head of k, D query/key width, C width of φ, M
value width, W value width with its column of ones (segments.py).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..maps.exponential import Exponential
from .keys import Scale, Terms, add_product, keys_at, queries, sum_of_keys, through_keys, through_queries, visible
from .segments import Widened, accumulator, divide, groups, whole_segments


def linear_attention_by_state(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Compute φ(q_i)ᵀ S / (φ(q_i)ᵀ z + eps) with S = Σ_j φ(k_j) v_jᵀ and z = Σ_j φ(k_j).

    [B, RN, D], [B, N, D], [B, N, M] -> [B, RN, M]. Katharopoulos et al. 2020, eq. 5-6. Differentiable once; the backward
    computes φ(q) and φ(k) again instead of keeping them.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _LinearAttention.apply(q, k, v, terms)  # type: ignore[no-untyped-call]
        return out
    out = v.new_empty(*q.shape[:2], v.shape[-1])
    for heads in groups(q):
        state, _ = sum_of_keys(terms.of(heads), k[heads], v[heads])
        _attend(terms, q[heads], state, out[heads])
    return out


class _LinearAttention(torch.autograd.Function):
    """`linear_attention_by_state` with its gradient."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the denominators and the states."""
        out, denominators = (
            v.new_empty(*q.shape[:2], v.shape[-1]),
            q.new_empty(*q.shape[:2], 1, dtype=terms.phi.arithmetic(q.dtype)),
        )
        states = []
        ctx.terms, ctx.scales = terms, []
        for heads in groups(q):
            state, scale = sum_of_keys(terms.of(heads), k[heads], v[heads])
            _attend(terms, q[heads], state, out[heads], denominators[heads])
            states.append(state)
            ctx.scales.append(scale)
        ctx.save_for_backward(q, k, v, out, denominators, *states)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute dq and the gradient of the state in one walk over the queries, then dk and dv over the keys."""
        q, k, v, out, denominators, *states = ctx.saved_tensors
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        for heads, state, scale in zip(groups(q), states, ctx.scales, strict=True):
            terms = ctx.terms.of(heads)
            dstate = _backward_queries(terms, q[heads], (g[heads], out[heads], denominators[heads]), state, dq[heads])
            if isinstance(terms.phi, Exponential) and terms.phi.normalises:
                # Σ_j φ(k_j)_c = 1 whatever the keys are, so the gradient along that sum has no effect
                dstate[..., -1] -= (dstate * state[..., : dstate.shape[-1]]).sum(-1)
            _backward_keys(terms, (k[heads], v[heads]), dstate.to(denominators.dtype), scale, (dk[heads], dv[heads]))
        return dq, dk, dv, None


def _attend(terms: Terms, q: Tensor, state: Tensor, out: Tensor, denominators: Tensor | None = None) -> None:
    """Write the output [B, RN, M] and, if given, the denominators [B, RN, 1]."""
    phi = terms.phi
    state = state.to(phi.arithmetic(q.dtype))
    for segment in whole_segments(q, state.shape[1]):
        divide(segment, torch.bmm(queries(phi, segment, q), state), terms.eps, out, denominators)


def _backward_queries(terms: Terms, q: Tensor, outputs: tuple[Tensor, Tensor, Tensor], state: Tensor, dq: Tensor) -> Tensor:
    """Write dq [B, RN, D] and return dL/dstate [B, C, M + 1]; outputs are dL/do, o and the denominators."""
    phi, wide, kind = terms.phi, outputs[0].shape[-1] + 1, outputs[2].dtype
    state = state[..., :wide].contiguous().to(kind)
    dstate = torch.zeros_like(state, dtype=accumulator(q.dtype))
    parts = whole_segments(q, state.shape[1])
    room = Widened(parts, outputs[0], kind, wide)
    for segment in parts:
        gw, features = room.through_division(segment, *outputs), queries(phi, segment, q)
        add_product(dstate, features, gw)
        through_queries(phi, segment, q, features, torch.bmm(gw, state.mT), dq)
        del features  # free them before the next segment
    return dstate


def _backward_keys(
    terms: Terms, inputs: tuple[Tensor, Tensor], dstate: Tensor, scale: Scale, gradients: tuple[Tensor, Tensor]
) -> None:
    """Write dk [B, N, D] and dv [B, N, M]: dv_j = dSᵀ φ(k_j), dφ(k_j) = dS v_j + dz."""
    phi, (k, v), (dk, dv) = terms.phi, inputs, gradients
    ds, dz = dstate[..., : v.shape[-1]].contiguous(), dstate[..., v.shape[-1]].unsqueeze(1)
    for segment in whole_segments(k, ds.shape[1]):
        features = keys_at(terms, segment, k, scale)
        segment.of(dv).copy_(torch.bmm(features, ds))
        dfeatures = torch.bmm(segment.of(v).to(ds.dtype), ds.mT).add_(dz)
        through_keys(phi, segment, k, features, visible(terms, segment, dfeatures), dk)
        del features, dfeatures  # free them before the next segment
