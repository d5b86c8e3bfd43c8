"""The one sequential part: what a chunk writes depends on the state that earlier chunks left.

X rows (batch and heads folded), S chunks of L tokens, D query/key width, M value width, G = 1 or D decays of a token.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Compute (I + a)⁻¹ b by forward substitution, which is stable; uses only what is below the diagonal of a."""
    x: Tensor = torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)
    return x


def feedback(
    reads: Tensor, given: Tensor, writes: Tensor, state: Tensor, carry: Tensor | float, added: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute p_n = given_n + reads_n S_n and S_{n+1} = carry_n S_n + added_n + writes_nᵀ p_n, chunk after chunk.

    reads and writes [X, S, L, D], given [X, S, L, M], state [X, D, M], carry [X, S, G, 1] or 1, added [X, S, D, M] -> p [X, S,
    L, M], the states before each chunk [X, S, D, M], and the state after them. Differentiable once.
    """
    shares = carry if isinstance(carry, Tensor) else None
    out: tuple[Tensor, Tensor, Tensor] = _Feedback.apply(reads, given, writes, state, shares, added)  # type: ignore[no-untyped-call]
    return out


class _Feedback(torch.autograd.Function):
    """`feedback` with a backward that walks back once.

    Autograd would keep every state twice and sum gradients chunk by chunk.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own bag
        reads: Tensor,
        given: Tensor,
        writes: Tensor,
        state: Tensor,
        carry: Tensor | None,
        added: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute one chunk after the other, filling [X, S, ...] slice by slice."""
        p, met = given.new_empty(given.shape), state.new_empty(*reads.shape[:2], *state.shape[1:])
        for n in range(reads.shape[1]):
            met[:, n] = state
            # baddbmm is fastest into dense memory of its own; the copy to its place is cheap
            one = torch.baddbmm(given[:, n], reads[:, n], state)
            p[:, n] = one
            state = torch.baddbmm(_shrunk(state, carry, added, n), writes[:, n].mT, one)
        ctx.save_for_backward(reads, writes, p, met, carry)
        ctx.adds = added is not None
        return p, met, state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dp: Tensor, dmet: Tensor, slope: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Walk from the last chunk to the first; `slope` is dL/dS after the current chunk."""
        reads, writes, p, met, carry = ctx.saved_tensors
        dgiven, after = torch.empty_like(p), torch.empty_like(met)
        for n in reversed(range(p.shape[1])):
            after[:, n] = slope
            one = torch.baddbmm(dp[:, n], writes[:, n], slope)
            dgiven[:, n] = one
            slope = torch.baddbmm(_shrunk(slope, carry, dmet, n), reads[:, n].mT, one)
        dcarry = None if carry is None else (after * met).sum(-1, keepdim=True).sum_to_size(carry.shape)
        return dgiven @ met.mT, dgiven, p @ after.mT, slope, dcarry, after if ctx.adds else None


def _shrunk(state: Tensor, carry: Tensor | None, added: Tensor | None, n: int) -> Tensor:
    """Compute carry_n S + added_n."""
    if carry is None:
        return state if added is None else state + added[:, n]
    return state * carry[:, n] if added is None else torch.addcmul(added[:, n], state, carry[:, n])
