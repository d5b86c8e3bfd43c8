"""Angular hashing by random rotations: the bucket of x is argmax([x P ; -x P]) (Andoni et al. 2015; Kitaev et al. 2020).

N tokens of all rows together, D width, R rounds, F half the number of buckets of one factor.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

_PROJECTED = 2**18
"""Number of projections held at once on a CPU: they stay in its cache, however many buckets there are."""


def draw_rotations(like: Tensor, rounds: int, factors: Sequence[int]) -> list[Tensor]:
    """Draw one Gaussian [D, R, F] for each factor of the number of buckets, for all heads, from torch's global generator."""
    D = like.shape[-1]
    return [torch.randn(D, rounds, factor // 2, dtype=like.dtype, device=like.device) for factor in factors]


def hash_into(buckets_NR: Tensor, x_ND: Tensor, rotations: list[Tensor]) -> None:
    """Write the bucket of each token in each round, from 0 to the product of all 2 F, less one.

    With two factors the bucket is a pair of smaller hashes, as in trax and Hugging Face: x is projected O(b₁ + b₂) instead of
    O(b₁ b₂) times.
    """
    for part in _parts(x_ND, sum(r[0].numel() for r in rotations)):
        bucket = _hash(x_ND[part], rotations[0])
        for rotation in rotations[1:]:
            bucket = bucket * (2 * rotation.shape[2]) + _hash(x_ND[part], rotation)
        buckets_NR[part] = bucket


def _hash(x_ND: Tensor, rotation: Tensor) -> Tensor:
    """Compute argmax([x P ; -x P]) without the negated half, by the largest |x P| and its sign: int64 [N, R]."""
    projected_NRF = (x_ND @ rotation.flatten(1)).unflatten(1, rotation.shape[1:])
    place_NR1 = projected_NRF.abs().max(-1, keepdim=True).indices
    negative = projected_NRF.gather(-1, place_NR1) < 0
    bucket_NR: Tensor = (place_NR1 + rotation.shape[2] * negative).squeeze(-1)
    return bucket_NR


def _parts(x_ND: Tensor, width: int) -> Iterator[slice]:
    """Cut the tokens into parts that are projected together."""
    N = len(x_ND)
    step = max(1, _PROJECTED // width) if x_ND.device.type == "cpu" else N
    return (slice(i, min(N, i + step)) for i in range(0, N, step))
