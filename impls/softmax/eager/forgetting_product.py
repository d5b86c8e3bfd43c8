"""Softmax with forgetting, tile by tile, with its own backward.

B batch, H heads, N tokens, Q queries and S keys of a tile, D query/key width, M value width.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.heads import of_each_head
from ...partial.softmax import Rule, attend, merge_, pull_back, sums

TOKENS = 1024
"""Queries, and keys, of a tile: torch's kernel for CPUs takes 256 queries at a time of 768 and more."""


def forgetting_attention(q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor, scale: float) -> Tensor:
    """Attend causally: [B, H, N, D], [B, K, N, D], [B, K, N, M] and log f ≤ 0, [B, H, N] -> [B, H, N, M], K divides H.

    Differentiable once; computes in float32 at least. Keeps the inputs, the output and the logsumexp of each query.
    """
    dtype, (k, v) = sums(q.dtype), of_each_head(q, k, v)
    # what counts are small differences of sums over many thousand tokens
    c = log_gates.to(torch.float64).cumsum(-1)
    o: Tensor = _Forgetting.apply(q.to(dtype), k.to(dtype), v.to(dtype), c, scale)  # type: ignore[no-untyped-call]
    return o.to(q.dtype)


class _Forgetting(torch.autograd.Function):
    """Adds c_i - c_j to the scores of each tile, where c are the logarithms of the gates summed up to each token."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, c: Tensor, scale: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        o, logsumexp = q.new_zeros(*q.shape[:3], v.shape[3]), q.new_full(q.shape[:3], -torch.inf)
        for own, seen, bias in _tiles(c, q.dtype):
            part = attend(q[:, :, own], k[:, :, seen], v[:, :, seen], Rule(scale, bias=bias))
            merge_(o[:, :, own], logsumexp[:, :, own], part)
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, c, o, logsumexp)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Add up the gradients of all tiles; a constant column of q makes that of k the sum of dL/dscore over queries."""
        q, k, v, c, o, logsumexp = ctx.saved_tensors
        scale, D, M = ctx.scale, q.shape[3], v.shape[3]
        # padded once, and not for each tile
        q, k, v, g, o = (_with(x, value, max(D, M)) for x, value in ((q, 1 / scale), (k, 0.0), (v, 0.0), (g, 0.0), (o, 0.0)))
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        for own, seen, bias in _tiles(c, q.dtype):
            inputs, final = (q[:, :, own], k[:, :, seen], v[:, :, seen]), (o[:, :, own], logsumexp[:, :, own])
            parts = pull_back(g[:, :, own], inputs, final, Rule(scale, bias=bias))
            for whole, at, part in zip((dq, dk, dv), (own, seen, seen), parts, strict=True):
                whole[:, :, at] += part
        # c_i adds the same to all scores of a query, which changes nothing; -c_j adds to those of its key
        return dq[..., :D], dk[..., :D], dv[..., :M], -dk[..., -1].to(c.dtype), None


def _tiles(c: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, slice, Tensor]]:
    """Give the queries and the keys of each tile, and what is added to their scores, [B, H, Q, S]."""
    N = c.shape[-1]
    for a in range(0, N, TOKENS):
        for b in range(0, a + 1, TOKENS):
            own, seen = slice(a, min(a + TOKENS, N)), slice(b, min(b + TOKENS, N))
            bias = (c[..., own].unsqueeze(-1) - c[..., seen].unsqueeze(-2)).to(dtype)
            yield own, seen, bias if b < a else bias.masked_fill_(_later(bias), -torch.inf)


def _later(tile: Tensor) -> Tensor:
    return torch.ones(tile.shape[-2:], dtype=torch.bool, device=tile.device).triu_(1)


def _with(x: Tensor, last: float, least: int) -> Tensor:
    """Pad [..., C] with zeros to a multiple of 8, above `least`, and set the last column."""
    width = -(-(least + 1) // 8) * 8
    x = F.pad(x, (0, width - x.shape[-1])).contiguous()
    x[..., -1] = last
    return x
