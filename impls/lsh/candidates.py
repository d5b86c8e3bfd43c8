"""Which keys a query meets in sorted order, given that order: how packages other than reformer-pytorch cut and join it.

B batch and heads folded, R rounds, N tokens, n queries (all N, or some), m tokens of a chunk.
"""

import torch
from torch import Tensor


def times_seen(order_BRN: Tensor, m: int, steps: tuple[int, ...], at: Tensor, *, closed: bool) -> Tensor:
    """How often each key is a candidate of each query, those of the tokens `at`, in each round: int64 [R, B, n, N].

    `order_BRN` has the tokens of each round as they were sorted. A query sees the chunks that are so many `steps` from its own.
    `closed`: the chunks of all rounds are one row whose ends meet, else those of a round stand alone and its ends see nothing.
    """
    chunk_BRN, R = order_BRN.argsort(dim=-1) // m, order_BRN.shape[1]
    chunks = order_BRN.shape[2] // m
    chunk_BRN = chunk_BRN + chunks * torch.arange(R, device=chunk_BRN.device)[:, None]
    seen = [sum(_near(chunk_BRN, chunk_BRN[:, r, at], r, step, R * chunks, closed=closed) for step in steps) for r in range(R)]
    return torch.stack([torch.as_tensor(x) for x in seen])


def _near(chunk_BRN: Tensor, own_Bn: Tensor, r: int, step: int, chunks: int, *, closed: bool) -> Tensor:
    """Whose chunk of any round, or of round r only, is the one `step` from a query's own chunk in that: int64 [B, n, N]."""
    wanted_Bn1 = own_Bn.unsqueeze(2) + step
    if not closed:
        return (chunk_BRN[:, r, None, :] == wanted_Bn1).long()
    return (chunk_BRN[:, :, None, :] == wanted_Bn1.unsqueeze(1) % chunks).sum(1)
