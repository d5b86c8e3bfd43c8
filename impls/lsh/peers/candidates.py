"""The keys that a query meets in a given sorted order, for packages that cut and join it differently from reformer-pytorch.

B batch and heads folded, R rounds, N tokens, n queries (all N, or some), m tokens of a chunk.
"""

import torch
from torch import Tensor


def times_seen(order_BRN: Tensor, m: int, steps: tuple[int, ...], at: Tensor, *, closed: bool) -> Tensor:
    """Count how often each key is a candidate of the queries at tokens `at` in each round: int64 [R, B, n, N].

    `order_BRN` lists the tokens of each round as they were sorted. A query sees the chunks at these `steps` from its own. If
    `closed`, the chunks of all rounds form one ring; otherwise each round stands alone and nothing is seen beyond its ends.
    """
    chunk_BRN, R = order_BRN.argsort(dim=-1) // m, order_BRN.shape[1]
    chunks = order_BRN.shape[2] // m
    chunk_BRN = chunk_BRN + chunks * torch.arange(R, device=chunk_BRN.device)[:, None]
    seen = [sum(_near(chunk_BRN, chunk_BRN[:, r, at], r, step, R * chunks, closed=closed) for step in steps) for r in range(R)]
    return torch.stack([torch.as_tensor(x) for x in seen])


def _near(chunk_BRN: Tensor, own_Bn: Tensor, r: int, step: int, chunks: int, *, closed: bool) -> Tensor:
    """Count where a key's chunk in any round, or if not closed in round r, is `step` from a query's: int64 [B, n, N]."""
    wanted_Bn1 = own_Bn.unsqueeze(2) + step
    if not closed:
        return (chunk_BRN[:, r, None, :] == wanted_Bn1).long()
    return (chunk_BRN[:, :, None, :] == wanted_Bn1.unsqueeze(1) % chunks).sum(1)
