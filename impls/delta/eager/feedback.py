"""The one sequential part: what a chunk writes depends on the state that earlier chunks left.

X rows (batch and heads folded), S chunks of L tokens, D query/key width, M value width, G = 1 or D decays of a token.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def feedback(
    reads: Tensor,
    given: Tensor,
    writes: Tensor,
    state: Tensor,
    *,
    carry: Tensor | None = None,
    half: Tensor | None = None,
    added: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute p_n = given_n - reads_n T_n and S_{n+1} = half_n (carry_n T_n + added_n + writes_nᵀ p_n), with T_n = half_n S_n.

    reads and writes [S, X, L, D], given [S, X, L, M], state [X, D, M], carry and half [S, X, G, 1], added [S, X, D, M] ->
    p [S, X, L, M], T [S, X, D, M], and the state after all chunks. Differentiable once.
    """
    following = None
    if half is not None:
        # T goes from chunk to chunk by the halves of both
        state, following = state * half[0], torch.cat((half[1:], torch.ones_like(half[:1])))
    out: tuple[Tensor, Tensor, Tensor] = _Feedback.apply(reads, given, writes, state, carry, half, following, added)  # type: ignore[no-untyped-call]
    return out


class _Feedback(torch.autograd.Function):
    """p_n = given_n - reads_n T_n and T_{n+1} = following_n half_n (carry_n T_n + added_n + writes_nᵀ p_n), with one walk back.

    Both halves may be 10^-26, so that their product would be no number of float32: one is multiplied after the other. Autograd
    would keep every state twice and sum gradients chunk by chunk.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own bag
        reads: Tensor,
        given: Tensor,
        writes: Tensor,
        state: Tensor,
        *shares: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute one chunk after the other, filling [S, X, ...] slice by slice; `shares`: carry, half, following, added."""
        carry, half, following, added = shares
        p, met = given.new_empty(given.shape), state.new_empty(len(reads) + 1, *state.shape)
        made = met[1:] if half is None else torch.empty_like(met[1:])
        met[0] = state
        for n, (before, after, left) in enumerate(zip(met[:-1].unbind(), met[1:].unbind(), made.unbind(), strict=True)):
            one = torch.baddbmm(given[n], reads[n], before, alpha=-1, out=p[n])
            torch.baddbmm(_shrunk(before, carry, added, n), writes[n].mT, one, out=left)
            if half is not None and following is not None:
                torch.mul(left, half[n], out=after).mul_(following[n])
        ctx.save_for_backward(reads, writes, p, met, carry, half, following, None if half is None else made)
        ctx.adds = added is not None
        # the last one goes on alone, without the memory of the others
        return p, met[:-1], met[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dp: Tensor, dmet: Tensor, last: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Walk from the last chunk to the first, with dL/dT after each, and `inner` before it is multiplied by the halves."""
        reads, writes, p, met, carry, half, following, made = ctx.saved_tensors
        dgiven, slopes = p.new_empty(p.shape), met.new_empty(met.shape)
        inner = slopes[1:] if half is None else torch.empty_like(slopes[1:])
        slopes[-1] = last
        for n in reversed(range(len(p))):
            slope = inner[n]
            if half is not None:
                torch.mul(slopes[n + 1], following[n], out=slope).mul_(half[n])
            one = torch.baddbmm(dp[n], writes[n], slope, out=dgiven[n])
            torch.baddbmm(_shrunk(slope, carry, dmet, n), reads[n].mT, one, alpha=-1, out=slopes[n])
        dcarry = None if carry is None else _by_row(inner * met[:-1], carry)
        # of the logarithms of both halves
        dlog = None if half is None else _by_row(inner * made, half)
        dhalf, dfollowing = (None, None) if dlog is None else (dlog / half, dlog / following)
        dreads, dwrites, dadded = (dgiven @ met[:-1].mT).neg_(), p @ inner.mT, inner if ctx.adds else None
        return dreads, dgiven, dwrites, slopes[0], dcarry, dhalf, dfollowing, dadded


def _shrunk(state: Tensor, carry: Tensor | None, added: Tensor | None, n: int) -> Tensor:
    """Compute carry_n S + added_n."""
    if carry is None:
        return state if added is None else state + added[n]
    return state * carry[n] if added is None else torch.addcmul(added[n], state, carry[n])


def _by_row(products: Tensor, like: Tensor) -> Tensor:
    """Sum up what a factor of rows of the state, or of the whole, is multiplied with: [S, X, D, M] -> [S, X, G, 1]."""
    return products.sum(-1, keepdim=True).sum_to_size(like.shape)
