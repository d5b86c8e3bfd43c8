"""Tables: how many tokens have each code, and the mean of their values, up to the end of each block.

X rows (batch and heads folded), T tables (blocks), L tokens of a block, S codes, M value width. Lingle 2023, section 3.3 and
appendix E: means are carried, and merged by their counts.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...partial.softmax import sums
from ..options import MATMUL, SCAN, SERIAL

Table = tuple[Tensor, Tensor]
"""Means [X, T, S, M], 0 without tokens, and counts [X, T, S], float32 at least."""


def running_tables(v: Tensor, codes: Tensor, S: int, blocks: int, reduction: str) -> Table:
    """Compute the tables after each of T = `blocks` blocks from values [X, T L, M] and codes int64 [X, T L]."""
    means, counts = block_tables(v, codes, S, blocks)
    if blocks == 1:
        return means, counts
    return _REDUCTIONS[reduction](means, counts), counts.cumsum_(1)


def block_tables(v: Tensor, codes: Tensor, S: int, blocks: int) -> Table:
    """Compute the table of each block alone."""
    shape, dtype = (len(v), blocks, S), sums(v.dtype)
    places = table_places(codes, S, blocks)
    means = v.new_zeros(math.prod(shape), v.shape[-1], dtype=dtype)
    # an expanded index instead of index_add_, because torch then sorts and adds in parallel
    means.scatter_add_(0, places.unsqueeze(1).expand(-1, v.shape[-1]), v.reshape(-1, v.shape[-1]).to(dtype))
    counts = means.new_zeros(math.prod(shape)).scatter_add_(0, places, means.new_ones(1).expand(places.shape))
    means.div_(counts.clamp(min=1).unsqueeze(1))
    return means.view(*shape, -1), counts.view(shape)


def table_places(codes: Tensor, S: int, blocks: int) -> Tensor:
    """Number the entry of X T S in which each token [X, T L] is: int64, flat."""
    first = torch.arange(0, len(codes) * blocks * S, S, device=codes.device)
    return (codes.reshape(len(codes) * blocks, -1) + first.unsqueeze(1)).flatten()


def gradient_of_values(dmeans: Tensor, counts: Tensor, codes: Tensor) -> Tensor:
    """Compute dL/dv [X, T L, M] from dL/d means of all running tables [X, T, S, M], which it overwrites.

    A value is in its code's mean of its own table and of all later ones: dv_j = Σ_{t ≥ t_j} dmeans_t / counts_t at z_j. This
    holds for every reduction.
    """
    rows, blocks, S, M = dmeans.shape
    dmeans.div_(counts.clamp(min=1).unsqueeze(-1))
    for t in range(blocks - 2, -1, -1):
        dmeans[:, t].add_(dmeans[:, t + 1])
    return dmeans.view(-1, M).index_select(0, table_places(codes, S, blocks)).view(rows, -1, M)


def _serial(means: Tensor, counts: Tensor) -> Tensor:
    """Merge block after block, in place."""
    total = counts[:, 0].clone()
    for t in range(1, means.shape[1]):
        total += counts[:, t]
        share = counts[:, t] / total.clamp(min=1)
        means[:, t] = torch.lerp(means[:, t - 1], means[:, t], share.unsqueeze(-1))
    return means


def _matmul(means: Tensor, counts: Tensor) -> Tensor:
    """Merge by the weight of every block in every later table: a product over blocks for each code, [T, T] and [T, M]."""
    counts = counts.transpose(1, 2)
    totals = counts.cumsum(2).clamp_(min=1)
    shares = (counts.unsqueeze(2) / totals.unsqueeze(3)).tril_()
    return (shares @ means.transpose(1, 2)).transpose(1, 2)


def _scan(means: Tensor, counts: Tensor) -> Tensor:
    """Merge by doubling: the means of 2, 4, 8 … blocks from those of half as many (Hillis and Steele 1986)."""
    counts, reach = counts.clone(), 1
    while reach < means.shape[1]:
        before, own = counts[:, :-reach].clone(), counts[:, reach:]
        own.add_(before)
        share = before.div_(own.clamp(min=1)).unsqueeze(-1)
        means[:, reach:] = torch.lerp(means[:, reach:], means[:, :-reach], share)
        reach *= 2
    return means


_REDUCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {SERIAL: _serial, MATMUL: _matmul, SCAN: _scan}
