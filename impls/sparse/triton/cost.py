"""The cost of one call of the sparse Triton kernels.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from functools import lru_cache

import torch
from torch import Tensor

from attnbench.api import Problem

from ...partial.tiles import arithmetic, padded
from ..patterns.band import Band
from ..patterns.pattern import Pattern, Shape
from .tuning import Launch, blocks, fitted
from .walks import Walk, cells_of, key_walks, query_walks


def executed_flops(p: Problem, pattern: Pattern, *, trains: bool) -> float:
    """Count products of whole tiles with padded widths: two per tile forward, three for dq, four for dk and dv."""
    D, M, shape = padded(p.D), padded(p.M), Shape.of(p)
    chosen, group = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype))), p.H // p.kv_heads
    flops = tile_pairs(pattern, shape, chosen.attend) * (D + M)
    if trains:
        flops += tile_pairs(pattern, shape, chosen.queries) * (2 * D + M)
        flops += tile_pairs(pattern, shape, chosen.keys, group=group) * (2 * D + 2 * M)
    return 2.0 * p.B * flops


@lru_cache(maxsize=64)
def tile_pairs(pattern: Pattern, shape: Shape, launch: Launch, group: int | None = None) -> int:
    """Count the (query, key) pairs of all tiles of all heads, by queries or, with `group` heads sharing k and v, by keys."""
    parts, of_keys = pattern.parts(shape), group is not None
    walks = key_walks(parts, shape.N, group) if group else query_walks(parts, shape.N)
    pairs = 0
    for walk in walks:
        how = fitted(launch, walk, of_keys=of_keys)
        of_band = {band: _tiles(walk, band, how, of_keys=of_keys) for band in walk.bands}
        pairs += how.queries * how.keys * sum(of_band[band] for row in walk.rows for band in row.bands)
    return pairs


def _tiles(walk: Walk, band: Band, how: Launch, *, of_keys: bool) -> int:
    """Count the tiles of one head, computing for all blocks at once what the kernels compute for each."""
    own, other = (how.keys, how.queries) if of_keys else (how.queries, how.keys)
    places, count = walk.places, -(-(walk.stop - walk.first) // own)
    begin = torch.arange(places.groups)[:, None] * places.apart
    start = walk.first + torch.arange(count) * own
    first, stop = (x.clamp(max=walk.stop) for x in _positions(begin, places.stride, band.keys if of_keys else band.queries))
    low, high = cells_of(band) if of_keys else (0, band.length)
    first, stop = first.clamp(min=low).maximum(start), stop.clamp(max=high).minimum(start + own)
    left, right = _seen(band, begin, (first, stop), places.stride, of_keys=of_keys, by_position=places.groups == band.groups)
    return int((((right - left).clamp(min=0) + other - 1) // other).where(first < stop, 0).sum())


def _seen(
    band: Band, begin: Tensor, own: tuple[Tensor, Tensor], stride: int, *, of_keys: bool, by_position: bool
) -> tuple[Tensor, Tensor]:
    """Compute the positions of the other side that are seen from positions first … stop of this one."""
    least, most = (x if by_position else begin + x * stride for x in (own[0], own[1] - 1))
    begin = begin if band.groups > 1 else torch.zeros_like(begin)
    if of_keys:
        left, right = (x.clamp(max=band.length) for x in _positions(begin, band.stride, band.queries))
        if band.low is not None:
            left = left.maximum((least // band.key_unit + band.low) * band.query_unit)
        if band.high is not None:
            right = right.minimum((most // band.key_unit + band.high + 1) * band.query_unit)
        return left, right
    left, right = _positions(begin, band.stride, band.keys)
    left, right = left.clamp(min=cells_of(band)[0]), right.clamp(max=cells_of(band)[1])
    if band.high is not None:
        left = left.maximum((least // band.query_unit - band.high) * band.key_unit)
    if band.low is not None:
        right = right.minimum((most // band.query_unit - band.low + 1) * band.key_unit)
    return left, right


def _positions(begin: Tensor, stride: int, tokens: tuple[int, int]) -> tuple[Tensor, Tensor]:
    first, stop = ((token - begin).clamp(min=0) + stride - 1 for token in tokens)
    return first // stride, stop // stride
