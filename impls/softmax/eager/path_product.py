"""Softmax whose scores pass through a product of reflections, tile by tile, with its own backward.

B batch, H heads, N tokens, T tiles of L tokens, D query/key width, M value width. A query reaches a key of an earlier token
through the reflections of all tokens between, R = I - β w wᵀ. Within a tile they are products of tokens (the UT transform,
impls/delta); a whole tile is one matrix P [D, D], so that a query goes from tile to tile by one product.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from ...partial.softmax import LOG2_E, Rule, attend, merge_, pull_back, sums
from ...partial.triangular import solve

TOKENS = 128
"""Tokens of a tile: what is kept of each is as many numbers."""


def path_attention(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, scale: float) -> Tensor:
    """Attend causally: q, k, w [B, H, N, D], v [B, H, N, M], β [B, H, N] -> [B, H, N, M], in float32 at least.

    Differentiable once.
    """
    N, dtype = q.shape[2], q.dtype
    q, k, v, w, beta = (x.to(sums(dtype)) for x in (q, k, v, w, beta.unsqueeze(-1)))
    q, k, v, w, beta = in_tiles(q, k, v, w, beta)
    # what a tile computes within is made again by the backward
    parts = checkpoint(moved, q, k, w, beta, use_reentrant=False)
    o: Tensor = _Tiles.apply(*parts, v, scale)  # type: ignore[no-untyped-call]
    return o.flatten(2, 3)[:, :, :N].to(dtype)


def in_tiles(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Cut into tiles, [B, H, N, ·] -> [B, H, T, L, ·]; the last is padded with tokens that reflect nothing and are not seen."""
    N = inputs[0].shape[2]
    L = max(1, min(TOKENS, N))
    return tuple(F.pad(x, (0, 0, 0, -N % L)).unflatten(2, (-1, L)) for x in inputs)


def moved(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Move queries to the start of their tile and keys to its end.

    q, k, w [B, H, T, L, D], β [B, H, T, L, 1] -> both, P [B, H, T, D, D] by which a query as a row crosses a tile, and the
    scores within tiles [B, H, T, L, L], right up to the diagonal.
    """
    strong = beta * w
    # with (I + tril(β W Wᵀ, -1)) X = [β W | tril(β W Kᵀ, -1)], R_i … R_1 = I - Wᵀ X up to row i
    crossed, met = solve(strong @ w.mT, strong, (strong @ k.mT).tril(-1))
    reached = (q @ w.mT).tril()
    one = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return q - reached @ crossed, k - met.mT @ w, one - w.mT @ crossed, q @ k.mT - reached @ met


class _Tiles(torch.autograd.Function):
    """Softmax over all tiles, from queries, keys, crossings and scores within tiles, as `moved` gives them."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, crossings: Tensor, within: Tensor, v: Tensor, scale: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend within tiles, then let all later queries attend to each tile from the last to the first, and cross it."""
        scores = _causal(within, scale)
        most = scores.amax(-1, keepdim=True)
        weights = scores.sub_(most).exp2_()
        total = weights.sum(-1, keepdim=True)
        o = (weights @ v).div_(total)
        logsumexp = total.log2_().add_(most).squeeze(-1) / LOG2_E
        L = q.shape[3]
        rows, o_rows, sums_rows = q.flatten(2, 3).clone(), o.flatten(2, 3), logsumexp.flatten(2, 3)
        for b in reversed(range(q.shape[2] - 1)):
            later = slice((b + 1) * L, None)
            part = attend(rows[:, :, later], k[:, :, b], v[:, :, b], Rule(scale))
            merge_(o_rows[:, :, later], sums_rows[:, :, later], part)
            rows[:, :, later] = rows[:, :, later] @ crossings[:, :, b]
        ctx.scale = scale
        ctx.save_for_backward(q, k, crossings, within, v, o, logsumexp)
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Take each tile of queries back through all tiles before it, and its gradient the other way."""
        q, k, crossings, within, v, o, logsumexp = ctx.saved_tensors
        g = g.contiguous()
        share = _causal(within, ctx.scale).sub_(logsumexp.unsqueeze(-1) * LOG2_E).exp2_()
        slope = (g @ v.mT).sub_((g * o).sum(-1, keepdim=True))
        dq, dk, dcrossings = (torch.zeros_like(x) for x in (q, k, crossings))
        dv, dwithin = share.mT @ g, share * slope * ctx.scale
        for a in range(1, q.shape[2]):
            # the queries of tile a at the start of each tile after b: at[b] meets the keys of b
            at = [q[:, :, a]]
            for b in reversed(range(a - 1)):
                at.append(at[-1] @ crossings[:, :, b + 1])
            at.reverse()
            final, carried = (o[:, :, a], logsumexp[:, :, a]), torch.zeros_like(at[0])
            for b in range(a):
                if b > 0:
                    dcrossings[:, :, b] += at[b].mT @ carried
                    carried = carried @ crossings[:, :, b].mT
                parts = pull_back(g[:, :, a], (at[b], k[:, :, b], v[:, :, b]), final, Rule(ctx.scale))
                carried = carried + parts[0]
                dk[:, :, b] += parts[1]
                dv[:, :, b] += parts[2]
            dq[:, :, a] = carried
        return dq, dk, dcrossings, dwithin, dv, None


def _causal(scores: Tensor, scale: float) -> Tensor:
    """Scale scores by log₂ e too, for powers of 2, and hide what is later."""
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
    return (scores * (scale * LOG2_E)).masked_fill_(later, -torch.inf)
