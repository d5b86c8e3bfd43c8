"""Gated linear attention by chunks, S_t = decay_t S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ q_t, with its own backward.

B batch, H heads of q, K heads of k and v, R = H / K heads of q that read one state, X = B K rows, N tokens, L tokens of a
chunk, D query/key width, M value width; G = 1 decay of a token, or D (one for each row of the state).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .heads import by_state
from .parts import dense, sums
from .rows import Rows


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float = 1.0,
    chunk: int = 64,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> o [B, H, N, M], and the state after it [B, K, D, M].

    `log_decay` is finite and at most 0: [B, K, N, G], or [1 or B, K, 1, G] the same at every token, or None for no decay.
    `state` is that before the first token, 0 by default; states are float32 at least, and half precision is computed in
    float32. Differentiable once; the backward computes a few chunks at a time again, from a state for each few, so that memory
    is linear in N.
    """
    B, heads, N, D = k.shape
    folded = None if log_decay is None else _folded(log_decay, B, N)
    x = Rows(by_state(q, heads), by_state(k, heads), by_state(v, heads), folded, scale, chunk)
    first = v.new_zeros(B * heads, D, v.shape[-1], dtype=sums(v.dtype)) if state is None else state.flatten(0, 1)
    if torch.is_grad_enabled() and any(y is not None and y.requires_grad for y in (*x.tensors, first)):
        o, last = _LinearAttention.apply(*x.tensors, first, scale, chunk)  # type: ignore[no-untyped-call]
    else:
        o, last = _attend(x, first)
    return o.view(*q.shape[:3], v.shape[-1]), last.unflatten(0, (B, heads))


def _folded(log_decay: Tensor, B: int, N: int) -> Tensor:
    """Fold [X, 1, N or 1, G]; expand to all tokens where a gradient is to be summed over them."""
    return by_state(log_decay.expand(B, -1, N if log_decay.requires_grad else -1, -1), log_decay.shape[1])


def _attend(x: Rows, first: Tensor, met: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Compute the output [X, R, N, M] and the last state [X, D, M]; append the state before each part to `met`."""
    o, last = x.v.new_empty(*x.q.shape[:3], x.v.shape[-1]), torch.empty_like(first)
    for some, mine in x.groups():
        state = first[some]
        for part in mine.parts:
            if met is not None:
                met.append(state)
            computed, state = mine.segment(part).attend(state)
            place = part.of(o[some])
            torch.mul(computed.view(place.shape), x.scale, out=place)
            del computed  # free it before the next part is made
        last[some] = state
    return o, last


class _LinearAttention(torch.autograd.Function):
    """`linear_attention` with its gradient; autograd would keep every chunk's scores and states."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the state before each part."""
        q, k, v, log_decay, first, scale, chunk = inputs
        met: list[Tensor] = []
        o, last = _attend(Rows(q, k, v, log_decay, scale, chunk), first, met)
        ctx.scale, ctx.chunk = scale, chunk
        ctx.save_for_backward(q, k, v, log_decay, *met)
        return o, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Go through each group of rows from its last part to its first, carrying dL/d(state)."""
        q, k, v, log_decay, *met = ctx.saved_tensors
        x = Rows(q, k, v, log_decay, ctx.scale, ctx.chunk)
        walk = _WayBack(x, g, dlast, decay_too=ctx.needs_input_grad[3])
        walk.all(met)
        return walk.dq, walk.dk, walk.dv, walk.dlog_decay, walk.dfirst, None, None


class _WayBack:
    """The walk of the backward, and the gradients that it has written."""

    def __init__(self, x: Rows, g: Tensor, dlast: Tensor, *, decay_too: bool) -> None:
        self.x, self.g, self.dlast = x, g, dlast
        self.dq, self.dk, self.dv = (y.new_empty(y.shape) for y in (x.q, x.k, x.v))
        by_token = decay_too and x.log_decay is not None and x.decays_by_token
        self.dlog_decay = x.log_decay.new_empty(x.log_decay.shape) if by_token and x.log_decay is not None else None
        self.dfirst = torch.empty_like(dlast)

    def all(self, met: list[Tensor]) -> None:
        """Walk all groups of rows; `met` are the states before the parts, in the order of the forward."""
        for some, mine in self.x.groups():
            here, met = met[: len(mine.parts)], met[len(mine.parts) :]
            self._group(some, mine, here)

    def _group(self, some: slice, mine: Rows, met: list[Tensor]) -> None:
        later = self.dlast[some]
        written = [None if y is None else y[some] for y in (self.dq, self.dk, self.dv, self.dlog_decay)]
        for part, state in zip(reversed(mine.parts), reversed(met), strict=True):
            g = dense(part.of(self.g[some]), later.dtype) * mine.scale
            made = mine.segment(part).pull_back(g, state, later, decay_too=self.dlog_decay is not None)
            for y, gradient in zip(written, made[:4], strict=True):
                if y is not None and gradient is not None:
                    part.put(y, gradient)
            later = made.state
            del made, g  # free them before the next part
        self.dfirst[some] = later
