"""One softmax over a query's own block, causally, and over earlier blocks that it chose, with a backward of its own.

X samples and heads of k, R heads of q that share one and choose alike, N tokens, L tokens of a block, E blocks chosen by a
query, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..partial.softmax import Rule, attend, merge_, pull_back, sums
from .lists import Stretch, stretches
from .own_block import Inputs, attend_own, pull_back_own


@dataclass(frozen=True)
class Terms:
    """L, and what scores are multiplied by."""

    block: int
    scale: float


def attend_blocks(inputs: Inputs, chosen: Tensor, terms: Terms) -> Tensor:
    """[X, R, N, D], [X, N, D], [X, N, M], int [X, N, E] -> [X, R, N, M], differentiable once.

    `chosen` are different blocks before the query's own, negative where there is none. The own block and the chosen ones are
    parts that are merged by their logsumexp; a chosen block is attended by all who chose it together, so that keys are read
    where they lie. Keeps inputs, the output and one number a query. Sums are float32 at least.
    """
    o: Tensor = _ChosenBlocks.apply(*inputs, chosen, terms)  # type: ignore[no-untyped-call]
    return o


class _ChosenBlocks(torch.autograd.Function):
    """The union with its gradient; the choice has none."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chosen: Tensor, terms: Terms) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp."""
        o, logsumexp = _forward((q, k, v), chosen, terms)
        ctx.terms = terms
        ctx.save_for_backward(q, k, v, chosen, o, logsumexp)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Each part pulls back its share."""
        q, k, v, chosen, o, logsumexp = ctx.saved_tensors
        return *_backward((q, k, v), chosen, (g.contiguous(), o, logsumexp), ctx.terms), None, None


def _forward(inputs: Inputs, chosen: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """The output [X, R, N, M] and its logsumexp [X R N + 1]."""
    q, _, v = inputs
    shape = q.shape[:3]
    # one more row, for what is no query
    o = q.new_empty(shape.numel() + 1, v.shape[-1], dtype=sums(q.dtype))
    logsumexp = o.new_empty(shape.numel() + 1)
    o[-1], logsumexp[-1] = 0, -torch.inf
    attend_own(inputs, (o[:-1].view(*shape, -1), logsumexp[:-1].view(shape)), terms.block, terms.scale)
    for part in stretches(chosen, shape[1], terms.block):
        _merge(part, inputs, (o, logsumexp), Rule(terms.scale))
    # whatever reads that row in the backward has no weight
    logsumexp[-1] = torch.inf
    return o[:-1].view(*shape, -1).to(q.dtype), logsumexp


def _merge(part: Stretch, inputs: Inputs, final: tuple[Tensor, Tensor], rule: Rule) -> None:
    """One block into the output and the logsumexp of those who chose it."""
    q, k, v = inputs
    new = attend(part.queries(q), part.block(k), part.block(v), rule)
    had = tuple(x.index_select(0, part.write) for x in final)
    merge_(had[0], had[1], (new[0].flatten(0, 2), new[1].flatten()))
    for x, merged in zip(final, had, strict=True):
        x.index_copy_(0, part.write, merged)


def _backward(inputs: Inputs, chosen: Tensor, outputs: Inputs, terms: Terms) -> Inputs:
    """Gradients of the inputs; `outputs` are dL/do, the output and its logsumexp."""
    q, k, v = inputs
    shape, wide = q.shape[:3], sums(q.dtype)
    dq = q.new_empty(shape.numel() + 1, q.shape[-1], dtype=wide)
    dq[-1] = 0
    dk, dv = (torch.zeros_like(x, dtype=wide) for x in (k, v))
    own = outputs[0], outputs[1], outputs[2][:-1].view(shape)
    pull_back_own(inputs, own, (dq[:-1].view(*shape, -1), dk, dv), terms.block, terms.scale)
    for part in stretches(chosen, shape[1], terms.block):
        _pull_back(part, inputs, outputs, (dq, dk, dv), Rule(terms.scale))
    return dq[:-1].view_as(q).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _pull_back(part: Stretch, inputs: Inputs, outputs: Inputs, gradients: Inputs, rule: Rule) -> None:
    """One block's share: dq of those who chose it, dk and dv of its keys."""
    (q, k, v), (g, o, logsumexp), (dq, dk, dv) = inputs, outputs, gradients
    final = part.queries(o), part.written(logsumexp)
    new = pull_back(part.queries(g), (part.queries(q), part.block(k), part.block(v)), final, rule)
    del final
    dq.index_copy_(0, part.write, dq.index_select(0, part.write).add_(new[0].flatten(0, 2)))
    part.block(dk).add_(new[1])
    part.block(dv).add_(new[2])
