"""Softmax attention in tiles, with its own backward.

X samples and heads of k, R heads of q that share one, N queries, S keys, Q queries of a tile, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import attend, pull_back, sums
from .own_block import Inputs
from .tiles import Tile, Tiling


def attend_tiles(inputs: Inputs, tiling: Tiling) -> Tensor:
    """Attend tile by tile: [X, R, N, D], [X, S, D], [X, S, M] -> [X, R, N, M], differentiable once; 0 where nothing is seen.

    Keeps the inputs, the output and one number a query.
    """
    o: Tensor = _Tiled.apply(*inputs, tiling)  # type: ignore[no-untyped-call]
    return o


class _Tiled(torch.autograd.Function):
    """Attention in tiles with its gradient: every tile is a softmax of its own, since no query is in two."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, tiling: Tiling) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        o = v.new_zeros(*q.shape[:3], v.shape[-1])
        logsumexp = o.new_zeros(q.shape[:3], dtype=sums(q.dtype))
        for tile, rule in tiling.rules(q):
            part = attend(*_seen(tile, q, k, v), rule)
            for into, x in zip((o, logsumexp), part, strict=True):
                _queries(tile, into).copy_(x)
            del part  # free it before the next tile
        ctx.tiling = tiling
        ctx.save_for_backward(q, k, v, o, logsumexp)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute gradients tile by tile: dq is written once, dk and dv are added up, since tiles share keys."""
        q, k, v, o, logsumexp = ctx.saved_tensors
        dq = torch.zeros_like(q)
        dk, dv = (torch.zeros_like(x, dtype=logsumexp.dtype) for x in (k, v))
        for tile, rule in ctx.tiling.rules(q):
            final = _queries(tile, o), _queries(tile, logsumexp)
            part = pull_back(_queries(tile, g), _seen(tile, q, k, v), final, rule)
            _queries(tile, dq).copy_(part[0])
            for into, x in zip((dk, dv), part[1:], strict=True):
                into[:, tile.first : tile.end] += x.sum(1)
            del part  # free it before the next tile
        return dq, dk.to(k.dtype), dv.to(v.dtype), None


def _queries(tile: Tile, x: Tensor) -> Tensor:
    return x[:, :, tile.start : tile.stop]


def _seen(tile: Tile, q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    """Select a tile's queries [X, R, Q, D], and its keys and values for each of R heads, as views."""
    keys = (x[:, None, tile.first : tile.end].expand(-1, q.shape[1], -1, -1) for x in (k, v))
    return _queries(tile, q), *keys  # type: ignore[return-value]
