"""Scores of the queries of a token with the keys up to it, for several kinds of both under one decay.

X rows (batch and heads of k and v folded), S chunks of L tokens, D query/key width, n blocks of h tokens, R kinds of queries, K
of keys; each head of q that reads the same state is a kind of its own. c is the sum of log decays from the chunk's start to a
token, its own included (recurrence/decay.py), by row of the state.

As there, pairs in blocks that lose little are one product of factors exp(c_i - m) and exp(m - c_j), m halfway, and pairs
further apart are split at the border b between the two halves of a longer block: exp(c_i - b) exp(b - c_j), both at most 1.
Here the exponentials are taken once for all kinds, and the backward computes them again instead of keeping them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...recurrence.decay import FACTORED, Decay, left
from ...recurrence.heads import each_head, lower_

Kinds = tuple[list[Tensor], list[Tensor]]
"""Kinds of queries, and kinds of keys, each [S, X, n, h, D] or [S, X, L, D]."""


@dataclass(frozen=True)
class Met:
    """Holds what a chunk needs of its queries and keys."""

    scores: tuple[Tensor, ...]
    """Of each query with each key, those of one query next to each other: [S, X, R L, L]."""
    queries: tuple[Tensor, ...]
    """With what is left of the state at the chunk's start, or halfway: [S, X, R L, D]."""
    keys: tuple[Tensor, ...]
    """With what is left of them at the chunk's end, or halfway: [S, X, L, D]."""
    carry: Tensor | None = None
    """What is left of the state over the chunk, [S, X, G, 1]; None where all is, or where `half` says it."""
    half: Tensor | None = None
    """Its root, [S, X, G, 1], by which the state is multiplied before the chunk reads it, and again after it was written."""


def meet(decay: Decay | None, queries: tuple[Tensor, ...], keys: tuple[Tensor, ...], early: tuple[Tensor, ...] = ()) -> Met:
    """Score queries [S, X, R L, D] with keys [S, X, L, D], and multiply both by their shares of the state before and after.

    `early` queries, [S, X, L, D], read the state before their token decays it; they come after the others, and score the keys
    before their token alone. Where a chunk loses little, what is left is multiplied into both once, for scores and state.
    """
    if decay is None:
        queries, keys = tuple(x.contiguous() for x in queries), tuple(x.contiguous() for x in keys)
        return Met(_products(queries, keys, early), (*queries, *early), keys)
    if decay.factors is None:
        scores = pairs(decay, (*queries, *(x.roll(-1, 2) for x in early)), keys)
        count = len(queries) * len(keys)
        before = left(F.pad(decay.c[:, :, :-1], (0, 0, 1, 0)), decay.kind)
        reads = (*map(decay.read, queries), *(x * before for x in early))
        scores = (*scores[:count], *map(one_later, scores[count:]))
        return Met(scores, reads, tuple(map(decay.write, keys)), carry=decay.carry)
    kept, undone = decay.factors
    queries, keys = tuple(each_head(q, kept) for q in queries), tuple(each_head(k, undone) for k in keys)
    if early:
        at_the_start = (decay.c[:, :, -1:] / -2).exp().to(decay.kind)
        before = torch.cat((at_the_start, kept[:, :, :-1]), 2)
        early = tuple(each_head(x, before) for x in early)
    return Met(_products(queries, keys, early), (*queries, *early), keys, half=decay.half)


def _products(queries: tuple[Tensor, ...], keys: tuple[Tensor, ...], early: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Score keys of a token up to the query's, and of those before the token of an early one."""
    scores = (lower_(q @ k.mT) for q in queries for k in keys)
    return *scores, *(lower_(q @ k.mT, -1) for q in early for k in keys)


def pairs(decay: Decay, queries: tuple[Tensor, ...], keys: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Compute Σ_d q_id k_jd exp(c_id - c_jd) for j <= i, else 0, for every kind of query with every kind of key.

    Keys [S, X, L, D], and queries of one or several heads, [S, X, L, D] or [S, X, heads L, D] -> a tensor [S, X, L, L] or [X,
    S, heads L, L] for each pair of them, those of one query next to each other. Differentiable once where the decay is by row
    of the state.
    """
    if decay.c.shape[-1] == 1:
        return tuple(decay.pairs(q, k) for q in queries for k in keys)
    L, of_heads = decay.c.shape[2], tuple(head for q in queries for head in q.split(decay.c.shape[2], 2))
    scores = iter(_of_each_kind(decay, of_heads, keys))
    found: list[Tensor] = []
    for q in queries:
        heads = [[next(scores) for _ in keys] for _ in range(q.shape[2] // L)]
        found += heads[0] if len(heads) == 1 else [torch.cat(of_key, 2) for of_key in zip(*heads, strict=True)]
    return tuple(found)


def _of_each_kind(decay: Decay, queries: tuple[Tensor, ...], keys: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Compute scores under a decay by row: R kinds of queries, K of keys, all [S, X, L, D] -> R K tensors [S, X, L, L]."""
    L = decay.c.shape[2]
    empty = (1 << (L - 1).bit_length()) - L
    # padded tokens decay no further, since sums of log decays must not grow again
    c = torch.cat((decay.c, decay.c[:, :, -1:].expand(-1, -1, empty, -1)), 2) if empty else decay.c
    kinds = tuple(F.pad(x, (0, 0, 0, empty)) for x in (*queries, *keys)) if empty else (*queries, *keys)
    scores: tuple[Tensor, ...] = _ByRow.apply(c, len(queries), *kinds)  # type: ignore[no-untyped-call]
    return tuple(x[:, :, :L, :L] for x in scores) if empty else scores


def one_later(pairs: Tensor) -> Tensor:
    """Move rows to the next token: the first becomes 0, the last is dropped; [S, X, L, L]."""
    return F.pad(pairs[:, :, :-1], (0, 0, 1, 0))


@dataclass(frozen=True)
class _Meeting:
    """Queries in blocks of h tokens that meet keys in blocks of h tokens, and the decay of both to their meeting point."""

    h: int
    query_left: Tensor
    key_left: Tensor
    own: bool
    """Whether queries and keys are the same blocks; otherwise they are the second and the first half of blocks of 2 h."""

    def late(self, x: Tensor, dim: int = 2) -> Tensor:
        """Select the tokens of the queries: L -> n, h along `dim`, a view."""
        return _blocks(x, dim, self.h) if self.own else _blocks(x, dim, 2, self.h).select(dim + 1, 1)

    def early(self, x: Tensor, dim: int = 2) -> Tensor:
        """Select the tokens of the keys: L -> n, h along `dim`, a view."""
        return _blocks(x, dim, self.h) if self.own else _blocks(x, dim, 2, self.h).select(dim + 1, 0)

    def at(self, scores: Tensor) -> Tensor:
        """Select the pairs that meet: [S, X, L, L] -> [S, X, n, h, h], a view."""
        return self.late(self.early(scores, 3), 2).diagonal(dim1=2, dim2=4).permute(0, 1, 4, 2, 3)

    def faded(self, queries: tuple[Tensor, ...], keys: tuple[Tensor, ...]) -> Kinds:
        """Multiply queries and keys by their decays: each [S, X, n, h, D]."""
        return [self.late(q) * self.query_left for q in queries], [self.early(k) * self.key_left for k in keys]


def _blocks(x: Tensor, dim: int, *size: int) -> Tensor:
    blocks: Tensor = x.unflatten(dim, (-1, *size))
    return blocks


def _meetings(c: Tensor, kind: torch.dtype) -> Iterator[_Meeting]:
    """Cover every pair of tokens once: first within blocks that lose little, then between halves of longer blocks."""
    h, L = _longest_block(c), c.shape[2]
    blocks = c.unflatten(2, (-1, h))
    halfway = (blocks[:, :, :, :1] + blocks[:, :, :, -1:]) / 2
    yield _Meeting(h, (blocks - halfway).to(kind).exp_(), (halfway - blocks).to(kind).exp_(), own=True)
    while h < L:
        first, second = c.unflatten(2, (-1, 2, h)).unbind(3)
        border = first[:, :, :, -1:]
        yield _Meeting(h, left(second - border, kind), left(border - first, kind), own=False)
        h *= 2


def _longest_block(c: Tensor) -> int:
    """Find the longest block, L, L / 2, …, that loses no more than FACTORED nats.

    Takes 1 on a GPU, where reading the values would synchronise.
    """
    h = c.shape[2]
    while h > 1 and (c.is_cuda or float((c[:, :, ::h] - c[:, :, h - 1 :: h]).amax()) > FACTORED):
        h //= 2
    return h


class _ByRow(torch.autograd.Function):
    """`pairs` for decays by row with its gradient, for L a power of 2."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, count: int, *kinds: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own bag
        """Compute the scores, meeting by meeting."""
        scores: list[Tensor] = []
        for meeting in _meetings(c, kinds[0].dtype):
            queries, keys = meeting.faded(kinds[:count], kinds[count:])
            products = [q @ k.mT for q in queries for k in keys]
            if meeting.own:
                scores = [_on_the_diagonal(x.tril_()) for x in products]
            else:
                for x, product in zip(scores, products, strict=True):
                    meeting.at(x).copy_(product)
        ctx.save_for_backward(c, *kinds)
        ctx.count = count
        return tuple(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute gradients; dL/dc = Σ q dL/dq - Σ k dL/dk, as c_i goes with each q_i, and -c_j with each k_j."""
        c, *kinds = ctx.saved_tensors
        queries, keys = tuple(kinds[: ctx.count]), tuple(kinds[ctx.count :])
        dqueries, dkeys = [torch.zeros_like(x) for x in queries], [torch.zeros_like(x) for x in keys]
        for meeting in _meetings(c, kinds[0].dtype):
            _pull_back(meeting, g, meeting.faded(queries, keys), (dqueries, dkeys))
        dc = torch.zeros_like(queries[0])
        for q, dq in zip(queries, dqueries, strict=True):
            dc.addcmul_(q, dq)
        for k, dk in zip(keys, dkeys, strict=True):
            dc.addcmul_(k, dk, value=-1)
        return dc.to(c.dtype), None, *dqueries, *dkeys


def _on_the_diagonal(own: Tensor) -> Tensor:
    """Place blocks on the diagonal: [S, X, n, h, h] -> [S, X, n h, n h], zeros elsewhere."""
    n, h = own.shape[2:4]
    if n == 1:
        return own.squeeze(2)
    scores = own.new_zeros(*own.shape[:2], n, h, n, h)
    scores.diagonal(dim1=2, dim2=4).copy_(own.permute(0, 1, 3, 4, 2))
    return scores.flatten(4, 5).flatten(2, 3)


def _pull_back(meeting: _Meeting, g: tuple[Tensor, ...], faded: Kinds, slopes: Kinds) -> None:
    """Add the share of one meeting to dL/dq and dL/dk, [S, X, L, D] each, from dL/dscores."""
    queries, keys = faded
    pairs = [meeting.at(x).tril() if meeting.own else meeting.at(x) for x in g]
    for r, dq in enumerate(slopes[0]):
        of_query = pairs[r * len(keys) : (r + 1) * len(keys)]
        meeting.late(dq).addcmul_(_sum_of_products(of_query, keys), meeting.query_left)
    for s, dk in enumerate(slopes[1]):
        of_key = [x.mT for x in pairs[s :: len(keys)]]
        meeting.early(dk).addcmul_(_sum_of_products(of_key, queries), meeting.key_left)


def _sum_of_products(a: list[Tensor], b: list[Tensor]) -> Tensor:
    first, *others = (x @ y for x, y in zip(a, b, strict=True))
    for product in others:
        first += product
    return first
