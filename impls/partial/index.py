"""A small index that says which keys, or entries for blocks of them, each query reads: its scores, and the largest of them.

B batch, N queries, I index heads of width E, m tokens of a block, C entries, k entries that a query keeps.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnbench.api import Problem

from .softmax import sums

ABSENT = -1
"""Number in place of an entry, where a query sees fewer than k."""
QUERIES, SCORES = 256, 1 << 20
"""The most queries that are scored together, and the most scores that are held: 4 MB in float32, the cache of a core or two."""


def index_heads(p: Problem) -> tuple[int, int]:
    """Return I and E: half as many heads as the attention has, half as wide."""
    return max(1, p.H // 2), max(1, p.D // 2)


def spans(N: int, heads: int, block: int) -> Iterator[tuple[int, int]]:
    """Cut N queries into spans with a limited number of scores; by query t those of (t + 1) // m entries are made."""
    start = 0
    while start < N:
        # the last query of a span sees the most
        stop = start + max(1, min(QUERIES, N - start, SCORES // (heads * max(1, (start + QUERIES) // block))))
        yield start, stop
        start = stop


def scored(N: int, heads: int, block: int) -> int:
    """Count the pairs of a query and an entry that `largest` scores for each head, hidden ones among them."""
    return sum((stop - start) * (stop // block) for start, stop in spans(N, heads, block))


def scores_of(index_q: Tensor, e: Tensor, w: Tensor | None = None) -> Tensor:
    """Compute Σ_i w_ti ReLU(q'_ti · e_s), w = 1 where it is not given, in float32 at least.

    [..., I, n, E], [..., C, E], [..., I, n] -> [..., n, C].
    """
    dots = (index_q @ e.unsqueeze(-3).mT).relu_()
    wide = dots.to(sums(dots.dtype))
    scores = (wide if w is None else wide * w.to(wide.dtype).unsqueeze(-1)).sum(-3)
    # all that no index head answers to score 0: of them the later ones come first, whatever sorts them; others stay as they are
    return scores.add_(torch.arange(1, scores.shape[-1] + 1, device=e.device, dtype=wide.dtype) * 1e-30)


def largest(index_q: Tensor, e: Tensor, w: Tensor | None, block: int, count: int) -> Tensor:
    """Choose, of the entries i < (t + 1) // m that query t sees, those with the largest scores: int64 [B, N, min(k, C)].

    [B, I, N, E], [B, C, E], [B, I, N] or None. In no order, with ABSENT where a query sees fewer. A block of one token is a
    token.
    """
    (B, heads, N, _), count = index_q.shape, min(count, e.shape[1])
    kept = torch.full((B, N, count), ABSENT, dtype=torch.int64, device=e.device)
    for b in range(B):
        for start, stop in spans(N, heads, block):
            some = index_q[b, :, start:stop], e[b, : stop // block], None if w is None else w[b, :, start:stop]
            kept[b, start:stop, : min(count, stop // block)] = largest_from(start, *some, block, count)
    return kept


def largest_from(start: int, index_q: Tensor, e: Tensor, w: Tensor | None, block: int, count: int) -> Tensor:
    """Choose alike for queries of the tokens from `start` on: [..., I, n, E], [..., C, E], [..., I, n] -> [..., n, min(k, C)].

    C = (start + n) // m are all entries that the last of them sees.
    """
    scores, first = scores_of(index_q, e, w), (start + 1) // block
    # none is hidden before the first that the first query does not see
    seen = torch.arange(start + 1, start + scores.shape[-2] + 1, device=e.device).unsqueeze(-1) // block
    scores[..., first:].masked_fill_(torch.arange(first, scores.shape[-1], device=e.device) >= seen, -torch.inf)
    return best(scores, min(count, scores.shape[-1]))


def best(scores: Tensor, count: int) -> Tensor:
    """Return the places of the largest scores in each row, in no order, ABSENT for those of -inf: [..., C] -> int64 [..., k].

    On a CPU torch's topk takes as long as a row is. So in a long one it chooses k sets of 4 to 8 places by what is the largest
    in each, in which the k largest of all are, and then among theirs alone.
    """
    length = scores.shape[-1]
    size = 1 if scores.is_cuda else min(8, length // (4 * max(1, count)))
    if size < 4:
        top = scores.topk(count, dim=-1, sorted=False)
        return top.indices.masked_fill_(top.values == -torch.inf, ABSENT)
    sets = length // size
    chosen = scores[..., : sets * size].unflatten(-1, (size, sets)).amax(-2).topk(count, dim=-1, sorted=False).indices
    places = (chosen.unsqueeze(-2) + torch.arange(0, sets * size, sets).unsqueeze(-1)).flatten(-2)
    places = torch.cat((places, torch.arange(sets * size, length).expand(*places.shape[:-1], -1)), -1)
    top = scores.gather(-1, places).topk(count, dim=-1, sorted=False)
    return places.gather(-1, top.indices).masked_fill_(top.values == -torch.inf, ABSENT)
