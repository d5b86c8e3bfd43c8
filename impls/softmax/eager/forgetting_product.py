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
"""Queries, and keys before them, of a tile: torch's kernel for CPUs takes 256 queries at a time of 768 and more."""
OWN = 256
"""Queries of a tile that see one another."""


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
    """Adds c_i - c_j to the scores, where c are the logarithms of the gates summed up to each token."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, c: Tensor, scale: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        o, logsumexp = q.new_zeros(*q.shape[:3], v.shape[3]), q.new_full(q.shape[:3], -torch.inf)
        wide_q, wide_k, wide_v = _widened(scale, q, k, v)
        for own, seen in _tiles(c.shape[-1]):
            rule, rest = _forget(wide_k, c, own, seen, scale)
            part, its = attend(wide_q[:, :, own], wide_k[:, :, seen], wide_v[:, :, seen], rule)
            merge_(o[:, :, own], logsumexp[:, :, own], (part[..., : v.shape[3]], its + rest))
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, c, o, logsumexp)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Add up the gradients of all tiles; a constant column of q makes that of k the sum of dL/dscore over queries.

        One of k makes that of q the sum over keys. It is 0 but for rounding, which all gates before the query would add up.
        """
        q, k, v, c, o, logsumexp = ctx.saved_tensors
        D, M = q.shape[3], v.shape[3]
        q, k, v, g, o = _widened(ctx.scale, q, k, v, g, o)
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        for own, seen in _tiles(c.shape[-1]):
            rule, rest = _forget(k, c, own, seen, ctx.scale)
            inputs, final = (q[:, :, own], k[:, :, seen], v[:, :, seen]), (o[:, :, own], logsumexp[:, :, own] - rest)
            parts = pull_back(g[:, :, own], inputs, final, rule)
            for whole, at, part in zip((dq, dk, dv), (own, seen, seen), parts, strict=True):
                whole[:, :, at] += part
        return dq[..., :D], dk[..., :D], dv[..., :M], dq[..., -2].to(c.dtype) - dk[..., -1], None


def _tiles(N: int) -> Iterator[tuple[slice, slice]]:
    """Give the queries of each tile and its keys, which are all before them, or the same."""
    for a in range(0, N, TOKENS):
        some = slice(a, min(a + TOKENS, N))
        yield from ((some, slice(b, b + TOKENS)) for b in range(0, a, TOKENS))
        for start in range(a, some.stop, OWN):
            own = slice(start, min(start + OWN, some.stop))
            if start > a:
                yield own, slice(a, start)
            yield own, own


def _forget(k: Tensor, c: Tensor, own: slice, seen: slice, scale: float) -> tuple[Rule, Tensor | float]:
    """Set the last column of the keys of a tile; return its rule, and what is added to the scores of each query [B, H, Q].

    With r that of the last key, c_i - c_j = (c_i - r) + (r - c_j), of which neither is larger than both where all keys come
    before all queries. Among the tokens of one tile no r lies between, and the difference itself is added.
    """
    if own == seen:
        k[:, :, seen, -1] = 0
        bias = (c[..., own].unsqueeze(-1) - c[..., seen].unsqueeze(-2)).to(k.dtype)
        later = torch.ones(bias.shape[-2:], dtype=torch.bool, device=k.device).triu_(1)
        return Rule(scale, bias=bias.masked_fill_(later, -torch.inf)), 0.0
    r = c[..., seen.stop - 1 : seen.stop]
    k[:, :, seen, -1] = (r - c[..., seen]).to(k.dtype)
    return Rule(scale), (c[..., own] - r).to(k.dtype)


def width(D: int, M: int) -> int:
    """Return how wide all tensors are computed with: a multiple of 8, with two columns for the gates."""
    return -(-(max(D, M) + 2) // 8) * 8


def _widened(scale: float, q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> list[Tensor]:
    """Copy all to one width; of the last two columns, which are 0 else, one is 1 / scale in k, and the other in q."""
    wide = [F.pad(x, (0, width(q.shape[-1], v.shape[-1]) - x.shape[-1])) for x in (q, k, v, *others)]
    wide[0][..., -1] = wide[1][..., -2] = 1 / scale
    return wide
