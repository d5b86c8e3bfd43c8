"""Causal linear attention by chunks, with its own backward.

B batch and heads of k folded, R heads of q that share one, N tokens, D query/key width, C width of φ, M value width, W value
width with its column of ones (segments.py). The sequence is walked in segments of chunks; chunk_products.py has the algebra of
one segment.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .chunk_products import chunks, gradients_of_chunks, sums_of_chunks
from .keys import Carried, Scale, Terms, absorb, nothing_yet, through_keys, through_queries
from .segments import Segment, Widened, divide, groups, segments

Inputs = tuple[Tensor, Tensor, Tensor]


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, terms: Terms, chunk: int) -> Tensor:
    """Compute Σ_{j≤i} φ(q_i)·φ(k_j) v_j / (Σ_{j≤i} φ(q_i)·φ(k_j) + eps): [B, N, R, D], [B, N, D], [B, N, M] -> [B, N, R, M].

    The output lies in memory as [B, R, N, M].
    Differentiable once. The backward computes everything again from the inputs, the output, its denominators and a few states
    (Katharopoulos et al. 2020, eq. 13-15), so that nothing quadratic and nothing for each chunk is kept. Not for maps that
    normalise each channel separately.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _CausalLinearAttention.apply(q, k, v, terms, chunk)  # type: ignore[no-untyped-call]
        return out
    out = outputs(q, v)
    for heads in groups(q):
        inputs = q[heads], k[heads], v[heads]
        attend(terms.of(heads), inputs, cut(terms, inputs, chunk), nothing_yet(terms, *inputs[1:]), out[heads])
    return out


def outputs(q: Tensor, v: Tensor) -> Tensor:
    """Make room for the outputs of all queries: [B, N, R, M]."""
    B, N, R, _ = q.shape
    return v.new_empty(B, R, N, v.shape[-1]).transpose(1, 2)


def attend(
    terms: Terms, inputs: Inputs, parts: list[Segment], carried: Carried, out: Tensor, kept: "Kept | None" = None
) -> Carried:
    """Write the output, and return what is carried after it; updates the given state in place."""
    (q, k, v), (state, scale) = inputs, carried
    wide = Widened(parts, v, terms.phi.arithmetic(q.dtype))
    for i, segment in enumerate(parts):
        if kept is not None:
            kept.note(i, state, scale)
        sums, scale = _sums(terms, segment, (q, k, wide.values(segment, v, terms.mask)), (state, scale))
        divide(segment, sums, terms.eps, out, None if kept is None else kept.denominators)
        del sums  # free them before the next segment
    return state, scale


def _sums(terms: Terms, segment: Segment, inputs: Inputs, carried: Carried) -> tuple[Tensor, Scale]:
    """Compute numerator and denominator of one segment, [B, T, R, W], and the scale after it."""
    (q, k, values), (state, scale) = inputs, carried
    x = chunks(terms, segment, q, k, values, scale)
    return sums_of_chunks(x, state).view(*segment.of(q).shape[:-1], -1), x.scale


def cut(terms: Terms, inputs: Inputs, chunk: int) -> list[Segment]:
    """Cut the tokens of a call into segments."""
    q = inputs[0]
    return segments(q, terms.phi.width(q.shape[-1]), chunk)


def spacing(count: int, state: int, output: int) -> int:
    """Count the segments from one kept state to the next: 1, unless `count` such states would outgrow the output."""
    return 1 if count * state <= output else math.isqrt(count - 1) + 1


@dataclass
class Kept:
    """The tensors that the backward needs of one group of heads beside inputs and output."""

    denominators: Tensor
    parts: list[Segment]
    every: int
    states: list[Tensor] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)

    def note(self, i: int, state: Tensor, scale: Scale) -> None:
        """Keep the scale before segment i, and every so often the state."""
        self.scales.append(scale)
        if i % self.every == 0:
            self.states.append(state.clone())


class _CausalLinearAttention(torch.autograd.Function):
    """`causal_linear_attention` with its gradient; autograd would keep every chunk's scores and states."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, terms: Terms, chunk: int) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the denominators and some states."""
        out, denominators = outputs(q, v), q.new_empty(*q.shape[:3], 1, dtype=terms.phi.arithmetic(q.dtype))
        ctx.terms, ctx.kept = terms, []
        for heads in groups(q):
            inputs = q[heads], k[heads], v[heads]
            parts, carried = cut(terms, inputs, chunk), nothing_yet(terms, *inputs[1:])
            every = spacing(len(parts), carried[0].numel(), inputs[2].numel())
            kept = Kept(denominators[heads], parts, every)
            attend(terms.of(heads), inputs, parts, carried, out[heads], kept)
            ctx.kept.append(kept)
        ctx.save_for_backward(q, k, v, out, denominators)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Walk each group from the last segment to the first, carrying Σ φ(q)ᵀ dL/d[numerator | denominator]."""
        q, k, v, out, denominators = ctx.saved_tensors
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        for heads, kept in zip(groups(q), ctx.kept, strict=True):
            inputs, outputs = (q[heads], k[heads], v[heads]), (g[heads], out[heads], denominators[heads])
            _WayBack(ctx.terms.of(heads), kept, inputs, outputs, (dq[heads], dk[heads], dv[heads])).walk()
        return dq, dk, dv, None, None


class _WayBack:
    """The walk of the backward over one group of heads."""

    def __init__(self, terms: Terms, kept: Kept, inputs: Inputs, outputs: Inputs, gradients: Inputs) -> None:
        q, k, v = inputs
        self.terms, self.kept, self.inputs, self.outputs, self.gradients = terms, kept, inputs, outputs, gradients
        self.after, _ = nothing_yet(terms, k, v)
        self.wide, self.wide_gradient = (Widened(kept.parts, x, terms.phi.arithmetic(q.dtype)) for x in (v, outputs[0]))

    def walk(self) -> None:
        """Write all of dq, dk and dv."""
        every, kept = self.kept.every, self.kept
        for i, state in reversed(list(enumerate(kept.states))):
            where = slice(i * every, (i + 1) * every)
            self._span(kept.parts[where], kept.scales[where], state)

    def _span(self, parts: list[Segment], scales: list[Scale], state: Tensor) -> None:
        """Compute the states from one kept state to the next, first to last, then the gradients, last to first."""
        # clones, because the walk updates states and a second backward needs the kept ones
        states = [state.clone()]
        for segment, scale in list(zip(parts, scales, strict=True))[:-1]:
            states.append(states[-1].clone())
            self._absorb(segment, states[-1], scale)
        while parts:
            self._segment(parts.pop(), states.pop(), scales.pop())

    def _absorb(self, segment: Segment, state: Tensor, scale: Scale) -> None:
        _, k, v = self.inputs
        absorb(self.terms, segment, k, self.wide.values(segment, v, self.terms.mask), (state, scale))

    def _segment(self, segment: Segment, state: Tensor, scale: Scale) -> None:
        """Write one segment of dq, dk and dv; updates both states in place."""
        (q, k, v), (dq, dk, dv) = self.inputs, self.gradients
        phi, mask = self.terms.phi, self.terms.mask
        x = chunks(self.terms, segment, q, k, self.wide.values(segment, v, mask), scale)
        gw = segment.chunks(self.wide_gradient.through_division(segment, *self.outputs))
        dfq, dfk, dva = gradients_of_chunks(x, gw, state, self.after)
        part = segment.of(dv)
        part.copy_(dva.view(*part.shape[:2], -1)[..., : dv.shape[-1]])
        if mask is not None:
            # not a product: where no key is seen yet, g / eps may overflow a narrow dtype, and infinity times 0 is NaN
            part.masked_fill_(~segment.of(mask), 0)
        fq, dfq = (y.view(*segment.of(q).shape[:-1], -1) for y in (x.fq, dfq))
        through_queries(phi, segment, q, fq, dfq, dq)
        fk, dfk = (y.view(*part.shape[:2], -1) for y in (x.fk, dfk))
        through_keys(phi, segment, k, fk, dfk, dk)
