"""Softmax attention over a union of rectangles, with its own backward.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import Rule, attend, merge_, pull_back, sums
from .plan import Plan
from .rectangles import Lines, Rectangle, Stairs
from .sides import Side, Turn, add, turns

Inputs = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Union:
    """The work of a call: the plan of what heads see, H and K, and the factor for scores."""

    plan: Plan
    heads: tuple[int, int]
    scale: float


def union_attention(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, sinks: Tensor | None = None) -> Tensor:
    """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]; a query that sees nothing gets 0.

    `sinks` [H] are one more score for each head, whose weight goes to nothing. Differentiable once. Keeps q, k, v, the output
    and the logsumexp of each query, and computes the rest again (Dao et al. 2022, appendix B.2). Raises ValueError where shapes
    do not fit.
    """
    _fits(q, k, v, plan)
    union, shape = Union(plan, (q.shape[1], k.shape[1]), scale), (*q.shape[:3], v.shape[-1])
    # copies, unless the rows of heads are evenly spaced already
    q, k, v = (x.contiguous().flatten(0, 1) for x in (q, k, v))
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, sinks)):
        out: Tensor = _UnionAttention.apply(q, k, v, sinks, union)  # type: ignore[no-untyped-call]
    else:
        out, _ = _forward((q, k, v), union, sinks)
    return out.view(shape)


def _fits(q: Tensor, k: Tensor, v: Tensor, plan: Plan) -> None:
    # tiles are views by strides, which would not notice wrong shapes
    (B, H, N, D), kv_heads = q.shape, k.shape[1]
    planned = sum(len(walk.heads) for walk in plan.forward)
    divides = kv_heads > 0 and H % kv_heads == 0
    if planned != H or not divides or k.shape != (B, kv_heads, N, D) or v.shape[:3] != k.shape[:3]:
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        raise ValueError(f"{shapes}: must be [B, {planned}, N, D], [B, K, N, D], [B, K, N, M], where K divides {planned}")


class _UnionAttention(torch.autograd.Function):
    """`union_attention` with its gradient; autograd would keep every part's output."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, union: Union) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        out, logsumexp = _forward((q, k, v), union, sinks)
        ctx.union = union
        ctx.save_for_backward(q, k, v, sinks, out, logsumexp)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Add up the gradients of all rectangles."""
        q, k, v, sinks, out, logsumexp = ctx.saved_tensors
        gradients = _backward(g.contiguous(), (q, k, v), (out, logsumexp), ctx.union)
        if sinks is None:
            return *gradients, None, None
        # a sink has no value: as that of any score, its gradient is P (0 - rowsum(dO ∘ O))
        weights = (_of_rows(sinks, logsumexp) - logsumexp).exp()
        by_head = -(weights * (g * out).sum(-1, dtype=weights.dtype)).view(-1, len(sinks), q.shape[1]).sum((0, 2))
        return *gradients, by_head.to(sinks.dtype), None


def _of_rows(sinks: Tensor, logsumexp: Tensor) -> Tensor:
    """Return the sink of each row of heads, [H] -> [B·H, 1]."""
    return sinks.to(logsumexp.dtype).repeat(len(logsumexp) // len(sinks)).unsqueeze(1)


def _forward(inputs: Inputs, union: Union, sinks: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute [B·H, N, D], [B·K, N, D], [B·K, N, M] -> output [B·H, N, M], logsumexp [B·H, N], of the sinks too."""
    q, _, v = inputs
    out = q.new_empty(*q.shape[:2], v.shape[-1], dtype=sums(q.dtype))
    logsumexp, rules = out.new_empty(q.shape[:2]), _Rules(union.scale, out)
    for turn in turns(union.plan.forward, q, union.heads):
        _attend(turn, inputs, (out, logsumexp), rules)
    if sinks is not None:
        rows = _of_rows(sinks, logsumexp)
        out *= torch.sigmoid(logsumexp - rows).unsqueeze(-1)
        logsumexp = torch.logaddexp(logsumexp, rows)
    return out.to(q.dtype), logsumexp


def _attend(turn: Turn, inputs: Inputs, final: tuple[Tensor, Tensor], rules: "_Rules") -> None:
    """Merge rectangle after rectangle into the output and its logsumexp."""
    q, o, logsumexp = (Lines(x, turn.rows) for x in (inputs[0], *final))
    k, v = (Side.reading(x, turn) for x in inputs[1:])
    if not turn.walk.whole:
        o.whole().zero_()
        logsumexp.whole().fill_(-torch.inf)
    for r in turn.walk.rectangles:
        part = attend(q.grid(r.queries), k.grid(r), v.grid(r), rules.of(r))
        if r.fresh:
            o.grid(r.queries).copy_(part[0])
            logsumexp.grid(r.queries).copy_(part[1])
        else:
            merge_(o.grid(r.queries), logsumexp.grid(r.queries), part)
        del part  # free it before the next part is made


def _backward(g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], union: Union) -> Inputs:
    """Compute dL/dq, dL/dk and dL/dv, from g = dL/do [B·H, N, M]."""
    q, k, v = inputs
    dq = torch.empty_like(q, dtype=sums(q.dtype))
    dk, dv = (torch.zeros_like(x, dtype=dq.dtype) for x in (k, v))
    rules = _Rules(union.scale, dq)
    for turn in turns(union.plan.backward, q, union.heads):
        _pull_back(turn, inputs, (g, *final), (dq, dk, dv), rules)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _pull_back(turn: Turn, inputs: Inputs, outputs: Inputs, gradients: Inputs, rules: "_Rules") -> None:
    """Add rectangle after rectangle to the gradients; `outputs` are dL/do, the output and its logsumexp."""
    q, g, o, logsumexp, dq = (Lines(x, turn.rows) for x in (inputs[0], *outputs, gradients[0]))
    k, v = (Side.reading(x, turn) for x in inputs[1:])
    summing = [Side.summing(x, turn) for x in gradients[1:]]
    if not turn.walk.whole:
        dq.whole().zero_()
    for r in turn.walk.rectangles:
        seen, final = (q.grid(r.queries), k.grid(r), v.grid(r)), (o.grid(r.queries), logsumexp.grid(r.queries))
        part, *parts = pull_back(g.grid(r.queries), seen, final, rules.of(r))
        into = dq.grid(r.queries)
        into.copy_(part) if r.fresh else into.add_(part)
        add(summing, r, parts)
        del part, parts  # free them before the next part
    for side in summing:
        side.scatter()


class _Rules:
    """The rules of rectangles; masks are built once a call, and few differ."""

    def __init__(self, scale: float, like: Tensor) -> None:
        self.scale, self.like = scale, like
        self.known: dict[Stairs, Tensor] = {}

    def of(self, r: Rectangle) -> Rule:
        """Return the rule of a rectangle, with a bias as wide as its keys."""
        if r.stairs is None:
            return Rule(self.scale, r.causal)
        if r.stairs not in self.known:
            self.known[r.stairs] = r.stairs.bias(self.like)
        return Rule(self.scale, bias=r.stairs.of(self.known[r.stairs], r.keys.length))
