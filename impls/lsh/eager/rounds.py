"""Attention in all rounds of hashing as one differentiable function.

B rows (batch and heads folded), N tokens.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import sums
from .backward import gradients_into
from .forward import attend_into
from .rows import Sorted, Terms, rows_together


def attend_rounds(qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> Tensor:
    """Compute Σ over candidates of all rounds of softmax(q·k̂ scale) v: [B, N, D], [B, N, M] -> [B, N, M].

    Kitaev et al. 2020, eq. 3 and 6: rounds weighted by exp(z_r - z) are one softmax. A token that sees only itself in all
    rounds gets its own value. Differentiable once; keeps inputs, output, order and one number for each token. Half precision is
    computed in float32.
    """
    if torch.is_grad_enabled() and (qk.requires_grad or v.requires_grad):
        out: Tensor = _Rounds.apply(qk, v, given, terms)  # type: ignore[no-untyped-call]
        return out
    return _forward(qk, v, given, terms)[0]


class _Rounds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> Tensor:  # noqa: ANN401
        o, log_total = _forward(qk, v, given, terms)
        ctx.save_for_backward(qk, v, o, log_total, given.order, given.buckets)
        ctx.terms = terms
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        qk, v, o, log_total, order, buckets = ctx.saved_tensors
        dqk, dv = qk.new_empty(qk.shape), v.new_empty(v.shape)
        for rows, part in rows_together(qk, Sorted(order, buckets), ctx.terms):
            inputs = part.tokens(qk[rows]), part.tokens(v[rows])
            final = part.tokens(g[rows]), part.tokens(o[rows]), log_total[rows].flatten()
            gradients_into((_tokens(dqk[rows]), _tokens(dv[rows])), part, inputs, final)
        return dqk, dv, None, None


def _forward(qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> tuple[Tensor, Tensor]:
    """Compute the output [B, N, M] and log₂ Σ 2^score [B, N]."""
    o, log_total = v.new_empty(v.shape), torch.empty(v.shape[:2], dtype=sums(v.dtype), device=v.device)
    for rows, part in rows_together(qk, given, terms):
        log_total[rows] = attend_into(_tokens(o[rows]), part, part.tokens(qk[rows]), part.tokens(v[rows])).view(-1, qk.shape[1])
    return o, log_total


def _tokens(x: Tensor) -> Tensor:
    """View dense [B, N, M] as [B N, M], to be written."""
    return x.view(-1, x.shape[2])
