"""Causal linear attention token by token over the state alone, with a backward that keeps no state either.

B batch and heads folded, N tokens, T tokens of a segment, C width of φ, M value width, W value width with its column of ones
(segments.py), G = 1 or C log scales (exponential.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..maps.exponential import Exponential
from .keys import Carried, Scale, Terms, keys_so_far, nothing_yet, queries, through_keys, through_queries
from .segments import Segment, Widened, divide, whole_segments

Inputs = tuple[Tensor, Tensor, Tensor]


def linear_attention_by_tokens(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Compute Σ_{j≤i} φ(q_i)·φ(k_j) v_j / (Σ_{j≤i} φ(q_i)·φ(k_j) + eps): [B, N, D], [B, N, D], [B, N, M] -> [B, N, M].

    Katharopoulos et al. 2020, eq. 16-20. Differentiable once. The backward runs the sums again, forward for dq and backward for
    dk and dv (eq. 13-15), in the memory of one state each. Takes any feature map.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _ByTokens.apply(q, k, v, terms)  # type: ignore[no-untyped-call]
        return out
    return attend_by_tokens(terms, q, k, v, nothing_yet(terms, k, v, kind=terms.phi.sums(k.dtype)))[0]


def attend_by_tokens(
    terms: Terms, q: Tensor, k: Tensor, v: Tensor, carried: Carried, denominators: Tensor | None = None
) -> tuple[Tensor, Carried]:
    """Compute the output, and what is carried after it; updates the given state in place."""
    out, (state, scale) = torch.empty_like(v), carried
    parts = _parts(terms, q)
    wide = Widened(parts, v, state.dtype)
    for segment in parts:
        sums, scale = _sums(terms, segment, (q, k, wide.values(segment, v, terms.mask)), (state, scale))
        divide(segment, sums, terms.eps, out, denominators)
        del sums  # free them before the next segment
    return out, (state, scale)


def _sums(terms: Terms, segment: Segment, inputs: Inputs, carried: Carried) -> tuple[Tensor, Scale]:
    """Compute numerator and denominator of one segment, [B, T, W], and the scale after it."""
    (q, k, values), (state, scale) = inputs, carried
    x = _keys(terms, segment, k, values, scale)
    fq = queries(terms.phi, segment, q).to(state.dtype)
    sums = [torch.bmm(fq_t, met) for fq_t, met in zip(fq.split(1, 1), x.states(state), strict=True)]
    return torch.cat(sums, 1), x.scale


@dataclass(frozen=True)
class _Keys:
    """One segment: φ(k) [B, T, C], [v | 1] [B, T, W], shares of the state left [B, T, G], and the scale after it."""

    fk: Tensor
    va: Tensor
    shares: Tensor | None
    scale: Scale

    def states(self, state: Tensor) -> Iterator[Tensor]:
        """Compute the state [B, C, W] after each token: always the same tensor, updated in place (eq. 18-19)."""
        for t, (fk, va) in enumerate(zip(self.fk.split(1, 1), self.va.split(1, 1), strict=True)):
            if self.shares is not None:
                state.mul_(self.shares[:, t].unsqueeze(-1))
            yield state.addcmul_(fk.mT, va)


def _keys(terms: Terms, segment: Segment, k: Tensor, values: Tensor, scale: Scale) -> _Keys:
    fk, scales = keys_so_far(terms, segment, k, scale)
    if scale is None or scales is None:
        return _Keys(fk.to(values.dtype), values, None, None)
    before = torch.cat([scale, scales[:, :-1]], dim=1)
    return _Keys(fk.to(values.dtype), values, (before - scales).exp_(), scales[:, -1:].clone())


def _parts(terms: Terms, x: Tensor) -> list[Segment]:
    # shorter than elsewhere: the calls are for each token anyway, and the backward's numbers are wider
    return whole_segments(x, 4 * terms.phi.width(x.shape[-1]))


class _ByTokens(torch.autograd.Function):
    """`linear_attention_by_tokens` with its gradient."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the denominators."""
        carried = nothing_yet(terms, k, v, kind=terms.phi.sums(k.dtype))
        denominators = q.new_empty(*q.shape[:2], 1, dtype=carried[0].dtype)
        out, _ = attend_by_tokens(terms, q, k, v, carried, denominators)
        ctx.terms = terms
        ctx.save_for_backward(q, k, v, out, denominators)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Run the sums over earlier keys again, then those over later queries, from the last."""
        q, k, v, out, denominators = ctx.saved_tensors
        walk = _WayBack(ctx.terms, (q, k, v), (g, out, denominators))
        walk.queries()
        walk.keys()
        return *walk.gradients, None


class _WayBack:
    """The two walks of the backward, with float64 sums: dφ(q_i) = S_i gw_i is a small difference of large sums."""

    def __init__(self, terms: Terms, inputs: Inputs, outputs: Inputs) -> None:
        self.terms, self.inputs, self.outputs = terms, inputs, outputs
        self.gradients = tuple(torch.empty_like(x) for x in inputs)
        self.parts = _parts(terms, inputs[0])
        self.wide, self.wide_gradient = (Widened(self.parts, inputs[2], torch.float64) for _ in range(2))
        self.scales: list[Scale] = []
        self.pulls: list[Tensor] = []

    def queries(self) -> None:
        """Write dq: dφ(q_i) = S_i gw_i (Katharopoulos et al. 2020, eq. 13)."""
        (q, k, v), dq = self.inputs, self.gradients[0]
        state, scale = nothing_yet(self.terms, k, v, kind=torch.float64)
        for segment in self.parts:
            self.scales.append(scale)
            scale = self._queries_of(segment, (q, k, v), (state, scale), dq)

    def _queries_of(self, segment: Segment, inputs: Inputs, carried: Carried, dq: Tensor) -> Scale:
        """Write one segment of dq, and return the scale after it; updates the state in place."""
        (q, k, v), (state, scale) = inputs, carried
        x = _keys(self.terms, segment, k, self.wide.values(segment, v, self.terms.mask), scale)
        gw, fq = self.wide_gradient.through_division(segment, *self.outputs), queries(self.terms.phi, segment, q)
        dfq = torch.cat([torch.bmm(g, met.mT) for g, met in zip(gw.split(1, 1), x.states(state), strict=True)], 1)
        self._keep_pull(fq, dfq)
        through_queries(self.terms.phi, segment, q, fq, dfq.to(fq.dtype), dq)
        return x.scale

    def _keep_pull(self, fq: Tensor, dfq: Tensor) -> None:
        """Keep φ(q) ∘ dφ(q) where channels of the state sum to one: the gradient along that sum has no effect."""
        if isinstance(self.terms.phi, Exponential) and self.terms.phi.normalises:
            self.pulls.append(fq * dfq)

    def keys(self) -> None:
        """Write dk and dv: with R_j = Σ_{i≥j} φ(q_i) gw_iᵀ, dφ(k_j) = R_j va_j and dv_j = R_jᵀ φ(k_j) (eq. 14-15).

        Eq. 14 is printed with gw_j inside the sum; it is gw_i (their supplement, eq. 27).
        """
        later, _ = nothing_yet(self.terms, self.inputs[0], self.inputs[2], kind=torch.float64)
        while self.parts:
            self._keys_of(self.parts.pop(), later, self.scales.pop(), self.pulls.pop() if self.pulls else None)

    def _keys_of(self, segment: Segment, later: Tensor, scale: Scale, pull: Tensor | None) -> None:
        (q, k, v), dk, dv = self.inputs, self.gradients[1], segment.of(self.gradients[2])
        x = _keys(self.terms, segment, k, self.wide.values(segment, v, self.terms.mask), scale)
        gw, fq = self.wide_gradient.through_division(segment, *self.outputs), queries(self.terms.phi, segment, q)
        rows, dfk, M = fq.to(later.dtype), torch.empty_like(x.fk), v.shape[-1]
        for t in reversed(range(dfk.shape[1])):
            later.addcmul_(rows[:, t, :, None], gw[:, t, None])
            if pull is not None:
                later[..., M] -= pull[:, t]
            dfk[:, t] = torch.bmm(later, x.va[:, t, :, None]).squeeze(-1)
            dv[:, t] = torch.bmm(x.fk[:, t, None], later[..., :M]).squeeze(1)
            if x.shares is not None:
                later.mul_(x.shares[:, t].unsqueeze(-1))
        del rows
        if self.terms.mask is not None:
            dv.masked_fill_(~segment.of(self.terms.mask), 0)
        through_keys(self.terms.phi, segment, k, x.fk.to(fq.dtype), dfk.to(fq.dtype), dk)
