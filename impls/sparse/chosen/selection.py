"""Find the keys with the largest scores of each query without ever holding all scores.

B batch with heads of k folded in, R heads of q for each, N queries, S keys, D query/key width, k keys kept.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ...partial.index import ABSENT, best

SCORES = 1 << 20
"""Number of scores that are held at a time: 4 MB in float32, which stay in the cache of a core or two."""
CAUSAL_ROWS = 256
"""Number of queries that are scored together if causal, against all keys up to the last of them."""


def largest(q: Tensor, k: Tensor, count: int, *, causal: bool) -> Tensor:
    """Choose the largest scores: [B, R, N, D], [B, S, D] -> int64 [B, R, N, min(count, S)], in no order, ABSENT for none.

    If causal, N = S and keys are j ≤ i. Exactly min(count, seen) keys are kept; among equal scores any may be chosen.
    """
    (B, R, N, _), count = q.shape, min(count, k.shape[1])
    kept = torch.empty(B, R, N, count, dtype=torch.int64, device=q.device)
    for group, rows, stop in _cuts(B, R, N, k.shape[1], causal=causal):
        kept[group, :, rows] = _of_block(q[group, :, rows], k[group, :stop], count, rows.start if causal else None)
    return kept


def blocks(B: int, R: int, N: int, *, causal: bool) -> list[tuple[int, int]]:
    """List the blocks of scores, each as its number of rows for one of R heads, and its number of keys."""
    cuts = _cuts(B, R, N, N, causal=causal)
    return [((group.stop - group.start) * (rows.stop - rows.start), stop) for group, rows, stop in cuts]


def _cuts(B: int, R: int, N: int, S: int, *, causal: bool) -> list[tuple[slice, slice, int]]:
    """Cut the scores into blocks of a limited size (one row at least): folded samples, queries, and the keys up to the last."""
    groups = _slices(B, R * N * S)
    rows = _slices(N, R * S * (groups[0].stop if groups else 1), most=CAUSAL_ROWS if causal else N)
    return [(group, row, row.stop if causal else S) for group in groups for row in rows]


def _slices(length: int, scores_of_one: int, most: int | None = None) -> list[slice]:
    width = max(1, min(SCORES // scores_of_one, most or length))
    return [slice(start, min(length, start + width)) for start in range(0, length, width)]


def _of_block(q: Tensor, k: Tensor, count: int, first: int | None) -> Tensor:
    """Choose for some queries among the keys up to the last of them; `first` is the first query's index if causal."""
    _, R, rows, _ = q.shape
    scores = (q.flatten(1, 2) @ k.mT).unflatten(1, (R, rows))
    if first is not None:
        later = torch.ones(rows, rows, dtype=torch.bool, device=q.device).triu_(1)
        scores[..., first:].masked_fill_(later, -torch.inf)
    return F.pad(best(scores, min(count, k.shape[1])), (0, max(0, count - k.shape[1])), value=ABSENT)
