"""Walk along the sequence in parts of some chunks, keeping only the states between parts for the backward.

X rows (batch and heads of k and v folded), R heads of q for each, N tokens, S chunks of L tokens in a part, D query/key width,
M value width. A form maps the inputs of a part, q and what else has its heads [S, X, R L, ·] and the others [S, X, L, ·], and
the state before it, [X, D, M] unless told, to its output [S, X, R L, M] and the state after it. The inputs are views of the
sequence: a form lays them dense by what it multiplies them with first (`each_head`), or else by `contiguous`. The backward
computes what is in between again, part by part, from the last to the first: memory beside inputs, output and gradients is that
of one part, whose tensors fit into a CPU's cache.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .heads import by_state
from .parts import Part, dense, groups, parts, sums

Inputs = tuple[Tensor, ...]
"""Inputs of a form: q, k, v, and whatever else it takes."""
Form = Callable[[Inputs, Tensor], tuple[Tensor, Tensor]]


def attend(form: Form, inputs: Inputs, chunk: int, size: tuple[int, int] | None = None) -> Tensor:
    """Attend: each [B, H or K, N, ·] -> o [B, H, N, M], differentiable once; `size` is that of the state, D × M by default.

    The state is that of one of the K heads of k and v, which H / K heads of q read. What is the same for all tokens, such as
    the parameters of a head, may be [B, K, 1, ·], and comes to the form as [1, X, 1, ·].
    """
    rows = tuple(by_state(x, inputs[2].shape[1]) for x in inputs)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        o: Tensor = _ByParts.apply(form, chunk, size, *rows)  # type: ignore[no-untyped-call]
    else:
        o, _ = _walk(form, chunk, size, rows)
    return o.view(*inputs[0].shape[:3], o.shape[-1])


def attend_and_keep(
    form: Form, inputs: Inputs, chunk: int, size: tuple[int, int] | None = None, before: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attend without gradients, and return the state after the last token [B, K, *size], float32 at least; N may be 0.

    The state `before`, of the same shape, stays as it is; without one, it is 0.
    """
    with torch.no_grad():
        o, state = _walk(form, chunk, size, tuple(by_state(x, inputs[2].shape[1]) for x in inputs), before=before)
    return o.view(*inputs[0].shape[:3], o.shape[-1]), state.unflatten(0, inputs[2].shape[:2])


def _walk(
    form: Form,
    chunk: int,
    size: tuple[int, int] | None,
    inputs: Inputs,
    met: list[Tensor] | None = None,
    before: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the output [X, R, N, M] and the last state [X, *size]; append the state before each part to `met`."""
    q, _, v = inputs[:3]
    o = v.new_empty(*q.shape[:3], v.shape[-1])
    last = v.new_zeros(v.shape[0], *(size or (q.shape[-1], v.shape[-1])), dtype=sums(v.dtype))
    for some in groups(q):
        rows = tuple(x[some] for x in inputs)
        state = torch.zeros_like(last[some]) if before is None else before.flatten(0, 1)[some].clone()
        for part in parts(rows[0], v.shape[-1], chunk):
            if met is not None:
                met.append(state)
            one, state = form(_in_chunks(part, rows, state.dtype), state)
            part.put(o[some], one)
            del one  # free it before the next part is made
        last[some] = state
    return o, last


def _in_chunks(part: Part, rows: Inputs, kind: torch.dtype) -> Inputs:
    return tuple(_of(part, x).to(kind).flatten(2, 3) for x in rows)


def _of(part: Part, x: Tensor) -> Tensor:
    """Select the part of [X, R, N, ·], or all of what all tokens share, [X, R, 1, ·] -> [1, X, R, 1, ·]."""
    return x.unsqueeze(0) if x.shape[2] == 1 else part.of(x)


class _ByParts(torch.autograd.Function):
    """`_walk` with its gradient."""

    @staticmethod
    def forward(ctx: Any, form: Form, chunk: int, size: tuple[int, int] | None, *inputs: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the states between parts."""
        met: list[Tensor] = []
        o, _ = _walk(form, chunk, size, inputs, met)
        ctx.form, ctx.chunk = form, chunk
        ctx.save_for_backward(*inputs, *met)
        ctx.count = len(inputs)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Go through each group of rows from the last part to the first, carrying dL/dS."""
        # asked for once: gradient checkpointing allows no more
        saved = ctx.saved_tensors
        inputs, met = saved[: ctx.count], list(saved[ctx.count :])
        gradients = tuple(x.new_zeros(x.shape) if x.shape[2] == 1 else x.new_empty(x.shape) for x in inputs)
        for some in reversed(groups(g)):
            rows, slopes = tuple(x[some] for x in inputs), tuple(x[some] for x in gradients)
            slope: Tensor | None = None
            for part in reversed(parts(rows[0], g.shape[-1], ctx.chunk)):
                slope = _pull_back(ctx.form, (part, rows, met.pop()), (g[some], slope), slopes)
        return None, None, None, *gradients


def _pull_back(form: Form, given: tuple[Part, Inputs, Tensor], outer: tuple[Tensor, Tensor | None], slopes: Inputs) -> Tensor:
    """Write a part of dL/dinputs, and return dL/dS before the part.

    `outer` is dL/do and dL/dS after the part, which is None for the last one.
    """
    part, rows, state = given
    g, slope = outer
    chunks, dense_g = _in_chunks(part, rows, state.dtype), dense(part.of(g), state.dtype)
    leaves = [x.detach().requires_grad_() for x in (*chunks, state)]
    with torch.enable_grad():
        outputs = form(tuple(leaves[:-1]), leaves[-1])
    after = torch.zeros_like(state) if slope is None else slope
    *inner, before = torch.autograd.grad(outputs, leaves, (dense_g, after), materialize_grads=True)
    for x, one in zip(slopes, inner, strict=True):
        if x.shape[2] == 1:
            x.add_(one.reshape(x.shape))
        else:
            part.put(x, one)
    return before
