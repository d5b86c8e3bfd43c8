"""Hash and sort, some rows at a time.

B rows (batch and heads folded), or rows and rounds, which are sorted separately; N tokens, R rounds.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..hashing import draw_rotations, hash_into

_SLOTS = 2**17
"""Number of tokens times rounds sorted at once: enough that starting torch's radix sort pays off."""


def draw_buckets(qk: Tensor, rounds: int, factors: Sequence[int]) -> Tensor:
    """Hash [B, N, D] by newly drawn rotations: int32 [B, R, N], with different numbers in each round."""
    rotations, count = draw_rotations(qk, rounds, factors), math.prod(factors)
    buckets_BNR = torch.empty(*qk.shape[:2], rounds, dtype=torch.int32, device=qk.device)
    hash_into(buckets_BNR.flatten(0, 1), qk.flatten(0, 1), rotations)
    return buckets_BNR.add_(torch.arange(0, rounds * count, count, dtype=torch.int32, device=qk.device)).mT


def sort_tokens(buckets_BRN: Tensor, count: int | None = None) -> Tensor:
    """Sort positions by (bucket, position), row by row and round by round: int32 [B, R, N]; `count` is above all buckets."""
    order = torch.empty(buckets_BRN.shape, dtype=torch.int32, device=buckets_BRN.device)
    step = max(1, _SLOTS // buckets_BRN[0].numel())
    count = int(buckets_BRN.max()) + 1 if count is None else count
    for rows in (slice(a, a + step) for a in range(0, len(order), step)):
        _sort_into(order[rows].flatten(0, 1), buckets_BRN[rows].flatten(0, 1), count)
    return order


def _sort_into(order_BN: Tensor, buckets_BN: Tensor, count: int) -> None:
    B, N = buckets_BN.shape
    if B * count >= 2**31:
        order_BN.copy_(buckets_BN.sort(dim=-1, stable=True).indices)
        return
    # one flat row of small integers, for which torch has a radix sort, twice as fast as row by row
    segment = torch.arange(B, dtype=torch.int32, device=buckets_BN.device).unsqueeze(1)
    flat = (buckets_BN.int() + segment * count).flatten()
    order_BN.copy_(flat.sort(stable=True).indices.view(B, N)).sub_(segment * N)
