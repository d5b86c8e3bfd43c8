"""Block masks for FlexAttention from ranges of keys, without the dense mask that `create_block_mask` evaluates.

H heads, N queries, S keys, R ranges, L queries or keys of a block, X = N / L and Y = S / L blocks, rounded up.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

L = 128
"""Tokens of a block: FlexAttention's own default; its GPU kernels accept no smaller one."""


def block_mask(first: Tensor, stop: Tensor, S: int, device: torch.device) -> BlockMask:
    """List the blocks with some pairs, and those with all: first and stop int32 [H or 1, R, N], disjoint ranges.

    Time O(N R Y), memory O(R L Y + X Y) for each head.
    """
    N, pairs = first.shape[2], pairs_of_blocks(first, stop, S)
    # a shorter block at an edge never counts as whole
    full = pairs == L * L
    partial, whole = (_listed(blocks.to(device)) for blocks in ((pairs > 0) & ~full, full))
    rule = within(first.to(device), stop.to(device))
    return BlockMask.from_kv_blocks(*partial, *whole, BLOCK_SIZE=L, mask_mod=rule, seq_lengths=(N, S))


def within(first: Tensor, stop: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Build the mask within a block, a function of sample, head, query and key."""
    by_head, ranges = first.shape[0] > 1, range(first.shape[1])

    def seen(_b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        head = h if by_head else 0
        found = (j >= first[head, 0, i]) & (j < stop[head, 0, i])
        for r in ranges[1:]:
            found = found | ((j >= first[head, r, i]) & (j < stop[head, r, i]))
        return found

    return seen


def pairs_of_blocks(first: Tensor, stop: Tensor, S: int) -> Tensor:
    """Count the pairs in each block: [H or 1, R, N] -> int64 [H or 1, X, Y]."""
    begin = torch.arange(0, S, L, dtype=torch.int32)

    def of_rows(first: Tensor, stop: Tensor) -> Tensor:
        shared = stop.unsqueeze(-1).minimum(begin + L) - first.unsqueeze(-1).maximum(begin)
        return shared.clamp_(min=0).sum((1, 2))

    return torch.stack([of_rows(*rows) for rows in zip(first.split(L, 2), stop.split(L, 2), strict=True)], dim=1)


def pairs_visited(first: Tensor, stop: Tensor, S: int) -> int:
    """Count all pairs, over all heads, of blocks with at least one visible pair: a block is computed whole, up to the edges."""
    N, blocks = first.shape[2], pairs_of_blocks(first, stop, S) > 0
    queries, keys = (
        torch.full((-(-n // L),), L).index_fill(0, torch.tensor(-(-n // L) - 1), n - (n - 1) // L * L) for n in (N, S)
    )
    return int((blocks * queries[:, None] * keys).sum())


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Count and list the key blocks of each query block, those first: [H, X, Y] -> int32 [1, H, X], [1, H, X, Y]."""
    which = blocks.int().argsort(dim=-1, descending=True, stable=True).int()
    return blocks.sum(-1, dtype=torch.int32).unsqueeze(0), which.unsqueeze(0).contiguous()
