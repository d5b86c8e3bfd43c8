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

    reads and writes [X, S, L, D], given [X, S, L, M], state [X, D, M], carry and half [X, S, G, 1], added [X, S, D, M] ->
    p [X, S, L, M], T [X, S, D, M], and the state after all chunks. Differentiable once.
    """
    later = None
    if half is not None:
        # T goes from chunk to chunk by the halves of both
        state, later = state * half[:, 0], half * torch.cat((half[:, 1:], torch.ones_like(half[:, :1])), 1)
    out: tuple[Tensor, Tensor, Tensor] = _Feedback.apply(reads, given, writes, state, carry, later, added)  # type: ignore[no-untyped-call]
    return out


class _Feedback(torch.autograd.Function):
    """p_n = given_n - reads_n S_n and S_{n+1} = later_n (carry_n S_n + added_n + writes_nᵀ p_n), with one walk back.

    Autograd would keep every state twice and sum gradients chunk by chunk.
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
        """Compute one chunk after the other, filling [X, S, ...] slice by slice; `shares` are carry, later and added."""
        carry, later, added = shares
        p, met, made = given.new_empty(given.shape), state.new_empty(*reads.shape[:2], *state.shape[1:]), []
        for n in range(reads.shape[1]):
            met[:, n] = state
            # baddbmm is fastest into dense memory of its own; the copy to its place is cheap
            one = torch.baddbmm(given[:, n], reads[:, n], state, alpha=-1)
            p[:, n] = one
            state = torch.baddbmm(_shrunk(state, carry, added, n), writes[:, n].mT, one)
            if later is not None:
                made.append(state)
                state = state * later[:, n]
        ctx.save_for_backward(reads, writes, p, met, carry, later, *made)
        ctx.adds = added is not None
        return p, met, state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dp: Tensor, dmet: Tensor, slope: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Walk from the last chunk to the first; `slope` is dL/dS after the current chunk."""
        reads, writes, p, met, carry, later, *made = ctx.saved_tensors
        dgiven, after, dlater = torch.empty_like(p), torch.empty_like(met), None if later is None else torch.empty_like(later)
        for n in reversed(range(p.shape[1])):
            if later is not None and dlater is not None:
                dlater[:, n] = (slope * made[n]).sum(-1, keepdim=True).sum_to_size(later[:, n].shape)
                slope = slope * later[:, n]
            after[:, n] = slope
            one = torch.baddbmm(dp[:, n], writes[:, n], slope)
            dgiven[:, n] = one
            slope = torch.baddbmm(_shrunk(slope, carry, dmet, n), reads[:, n].mT, one, alpha=-1)
        dcarry = None if carry is None else (after * met).sum(-1, keepdim=True).sum_to_size(carry.shape)
        return (dgiven @ met.mT).neg_(), dgiven, p @ after.mT, slope, dcarry, dlater, after if ctx.adds else None


def _shrunk(state: Tensor, carry: Tensor | None, added: Tensor | None, n: int) -> Tensor:
    """Compute carry_n S + added_n."""
    if carry is None:
        return state if added is None else state + added[:, n]
    return state * carry[:, n] if added is None else torch.addcmul(added[:, n], state, carry[:, n])
