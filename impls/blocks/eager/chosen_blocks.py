"""One softmax over a query's own block, causally, and the earlier blocks that it chose, with its own backward.

X samples and heads of k, R heads of q that share one and choose alike, N tokens, L tokens of a block, E blocks chosen by a
query, D query/key width, M value width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...partial.opaque import opaque
from ...partial.softmax import Rule, attend, merge_, pull_back, sums
from .lists import Stretch, stretches
from .own_block import Inputs, attend_own, pull_back_own


@dataclass(frozen=True)
class Terms:
    """The length L of a block, and the factor for scores."""

    block: int
    scale: float


def attend_blocks(inputs: Inputs, chosen: Tensor, terms: Terms) -> Tensor:
    """Attend to the own and the chosen blocks, differentiable once.

    [X, R, N, D], [X, N, D], [X, N, M], int [X, N, E] -> [X, R, N, M]. `chosen` holds different blocks before the query's own,
    and negative numbers where there is none. The own block and the chosen ones are attended as parts and merged by their
    logsumexp; all queries that chose a block attend to it together, so that keys are read where they lie. Keeps the inputs, the
    output and one number a query. Sums are in float32 at least.
    """
    return _attend(*inputs, chosen, terms.block, terms.scale)


def _forward(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor, block: int, scale: float) -> tuple[Tensor, Tensor]:
    """Compute the output [X, R, N, M] and its logsumexp [X R N + 1], whose last entry belongs to no query."""
    shape = q.shape[:3]
    # one more row takes what lists write for their padding
    o = q.new_empty(shape.numel() + 1, v.shape[-1], dtype=sums(q.dtype))
    logsumexp = o.new_empty(shape.numel() + 1)
    o[-1], logsumexp[-1] = 0, -torch.inf
    attend_own((q, k, v), (o[:-1].view(*shape, -1), logsumexp[:-1].view(shape)), block, scale)
    for part in stretches(chosen, shape[1], block):
        _merge(part, (q, k, v), (o, logsumexp), Rule(scale))
    # so that the backward gives the padding, which reads this row, no weight
    logsumexp[-1] = torch.inf
    return o[:-1].view(*shape, -1).to(q.dtype), logsumexp


def _merge(part: Stretch, inputs: Inputs, final: tuple[Tensor, Tensor], rule: Rule) -> None:
    """Merge one block into the output and logsumexp of the queries that chose it."""
    q, k, v = inputs
    new = attend(part.queries(q), part.block(k), part.block(v), rule)
    had = tuple(x.index_select(0, part.write) for x in final)
    merge_(had[0], had[1], (new[0].flatten(0, 2), new[1].flatten()))
    for x, merged in zip(final, had, strict=True):
        x.index_copy_(0, part.write, merged)


def _made(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor, block: int, scale: float) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = q.shape[:3]
    return q.new_empty(*shape, v.shape[-1]), q.new_empty(shape.numel() + 1, dtype=sums(q.dtype))


def _backward(
    g: Tensor, tensors: list[Tensor], results: list[Tensor], block: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Add up the gradients of q, k and v over the own and all chosen blocks."""
    (q, k, v, chosen), (o, logsumexp) = tensors, results
    inputs, outputs = (q, k, v), (g.contiguous(), o, logsumexp)
    shape, wide = q.shape[:3], sums(q.dtype)
    dq = q.new_empty(shape.numel() + 1, q.shape[-1], dtype=wide)
    dq[-1] = 0
    dk, dv = (torch.zeros_like(x, dtype=wide) for x in (k, v))
    own = outputs[0], o, logsumexp[:-1].view(shape)
    pull_back_own(inputs, own, (dq[:-1].view(*shape, -1), dk, dv), block, scale)
    for part in stretches(chosen, shape[1], block):
        _pull_back(part, inputs, outputs, (dq, dk, dv), Rule(scale))
    return dq[:-1].view_as(q).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _pull_back(part: Stretch, inputs: Inputs, outputs: Inputs, gradients: Inputs, rule: Rule) -> None:
    """Add one block's share: to dq of the queries that chose it, and to dk and dv of its keys."""
    (q, k, v), (g, o, logsumexp), (dq, dk, dv) = inputs, outputs, gradients
    final = part.queries(o), part.written(logsumexp)
    new = pull_back(part.queries(g), (part.queries(q), part.block(k), part.block(v)), final, rule)
    del final
    dq.index_copy_(0, part.write, dq.index_select(0, part.write).add_(new[0].flatten(0, 2)))
    part.block(dk).add_(new[1])
    part.block(dv).add_(new[2])


def _gradients(_: Tensor, tensors: list[Tensor], *others: object) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001
    q, k, v, _ = tensors
    return q.new_empty(q.shape), torch.empty_like(k), torch.empty_like(v)


_attend = opaque("attend_blocks", _forward, _made, _backward, _gradients)
