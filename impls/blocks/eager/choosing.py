"""Let each query choose earlier blocks, without ever holding all scores.

X samples and heads of k, R heads of q that share one, n queries at tokens t, t + 1, …, L tokens of a block, C complete blocks,
E blocks chosen by a query, D query/key width. A block is earlier where it ends before the block that holds the query begins, so
only complete blocks are chosen.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...partial.softmax import sums
from .room import SCORES, at_once

ABSENT = -1
"""Number that stands for no block, where a query has fewer than E blocks before it."""
_TOKENS = 1024  # most queries scored together: each span is scored against all blocks before its last one


@dataclass(frozen=True)
class Choice:
    """The rule by which blocks are chosen: at most `count` (E) earlier blocks of `block` (L) tokens each."""

    block: int
    count: int


def by_mean(q: Tensor, means: Tensor, choice: Choice, first: int = 0) -> Tensor:
    """Choose the blocks with the largest q·mean(k): [X, n, D], [X, C, D] -> int32 [X, n, E], best first, ABSENT last.

    Lu et al. 2025 (MoBA), section 2.2, without the own block. The first query is token `first`. Scores are in float32 at least.
    """
    chosen = _nothing(q, q.shape[1], choice)
    if not choice.count:
        return chosen
    wide = sums(q.dtype)
    for rows, own in spans(q, q.shape[0], first, choice.block):
        earlier = (first + rows.stop - 1) // choice.block
        scores = q[:, rows].to(wide) @ means[:, :earlier].to(wide).mT
        chosen[:, rows] = largest(scores, own, choice.count)
    return chosen


def by_weight(q: Tensor, means: Tensor, choice: Choice, scale: float, first: int = 0) -> Tensor:
    """Choose the blocks to which a group of heads gives most weight: [X, R, n, D], [X, C, D] -> int32 [X, n, E], ABSENT last.

    Yuan et al. 2025 (NSA), section 3.3.2, where compressed and selected blocks are the same: the weight is a softmax over the
    means of all complete blocks, summed over R. The first block and the one before the own are chosen before all others; the
    own block is left out.
    """
    chosen = _nothing(q, q.shape[2], choice)
    for rows, own in spans(q, q.shape[0] * q.shape[1], first, choice.block):
        tokens = torch.arange(rows.start, rows.stop, device=q.device) + first
        seen = means[:, : (first + rows.stop) // choice.block]
        weights = block_weights(q[:, :, rows], seen, tokens, choice.block, scale)
        chosen[:, rows] = most_weighty(weights, own, choice.count)
    return chosen


def block_weights(q: Tensor, means: Tensor, tokens: Tensor, block: int, scale: float) -> Tensor:
    """Compute softmax over the complete blocks of each token: [X, R, n, D], [X, C, D] -> [X, R, n, C], NaN without any."""
    scores = (q.flatten(1, 2) @ means.mT).unflatten(1, q.shape[1:3]).to(sums(q.dtype)).mul_(scale)
    ends = torch.arange(1, means.shape[1] + 1, device=q.device) * block
    weights: Tensor = scores.masked_fill_(ends > tokens.unsqueeze(-1) + 1, -torch.inf).softmax(-1)
    return weights


def most_weighty(weights: Tensor, own: Tensor, count: int) -> Tensor:
    """Choose by the weight summed over R, forced blocks first.

    Weights [X, R, n, C] and the own block of each query [n] -> int32 [X, n, E].
    """
    total, c = weights.sum(1), torch.arange(weights.shape[-1], device=weights.device)
    forced = (c == 0) | (c == own.unsqueeze(-1) - 1)
    return largest(total.masked_fill_(forced, torch.inf), own, count)


def largest(scores: Tensor, own: Tensor, count: int) -> Tensor:
    """Choose the best blocks before the own one: [X, n, C], own [n] -> int32 [X, n, E]. Overwrites the scores."""
    hidden = torch.arange(scores.shape[-1], device=scores.device) >= own.unsqueeze(-1)
    top = scores.masked_fill_(hidden, -torch.inf).topk(min(count, scores.shape[-1]), dim=-1)
    found = top.indices.int().masked_fill_(top.values == -torch.inf, ABSENT)
    return F.pad(found, (0, count - found.shape[-1]), value=ABSENT)


def spans(q: Tensor, rows: int, first: int, block: int) -> list[tuple[slice, Tensor]]:
    """Cut the queries of q [..., n, D] into spans that are scored together, each with the own block of its queries.

    `rows` is the number of samples and heads that are scored at once, `first` the token of the first query.
    """
    n = q.shape[-2]
    step = tokens_together(at_once(q, SCORES), rows, (first + n) // block)
    own = torch.arange(first, first + n, device=q.device) // block
    return [(slice(a, min(a + step, n)), own[a : a + step]) for a in range(0, n, step)]


def tokens_together(scores: int, rows: int, blocks: int) -> int:
    """Count the queries whose scores are held at a time: as many as `scores` allow, but at least one."""
    return max(1, min(_TOKENS, scores // (rows * max(1, blocks))))


def _nothing(q: Tensor, n: int, choice: Choice) -> Tensor:
    return torch.empty(q.shape[0], n, choice.count, dtype=torch.int32, device=q.device)
