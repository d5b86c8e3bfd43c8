"""The states between chunks, S_{n+1} = carry_n S_n + add_n, and their gradients, which move the other way.

X rows (batch and heads folded), S chunks, D query/key width, M value width; G = 1 or D decays.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def states(carry: Tensor, add: Tensor, first: Tensor) -> Tensor:
    """Compute the state before each chunk, and in the last row the one after all: [S + 1, X, D, M]; differentiable once.

    `carry` [S or 1, X or 1, G, 1]; `add` [S, X, D, M]; `first` [X, D, M], the state before all.
    """
    met: Tensor = _States.apply(carry, add, first)  # type: ignore[no-untyped-call]
    return met


def slopes(carry: Tensor, add: Tensor, last: Tensor) -> Tensor:
    """Compute dL/dS of the states that `states` returns, [S + 1, X, D, M]; not differentiable.

    `add` [S, X, D, M] is what reads of the state before each chunk add to it, and `last` [X, D, M] that of the state after all.
    """
    found = add.new_empty(len(add) + 1, *add.shape[1:])
    found[-1] = last
    # views made at once, which selecting one by one is not
    rows, adds, carries = found.unbind(), add.unbind(), carry.expand(len(add), -1, -1, -1).unbind()
    for n in reversed(range(len(add))):
        torch.addcmul(adds[n], rows[n + 1], carries[n], out=rows[n])
    return found


class _States(torch.autograd.Function):
    """`states` with its gradient."""

    @staticmethod
    def forward(ctx: Any, carry: Tensor, add: Tensor, first: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Compute each state into its place."""
        met = add.new_empty(len(add) + 1, *add.shape[1:])
        met[0] = first
        rows, adds, carries = met.unbind(), add.unbind(), carry.expand(len(add), -1, -1, -1).unbind()
        for n in range(len(add)):
            torch.addcmul(adds[n], rows[n], carries[n], out=rows[n + 1])
        ctx.save_for_backward(carry, met)
        return met

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own bag
        """Walk from the last chunk to the first."""
        carry, met = ctx.saved_tensors
        found = slopes(carry, g[:-1], g[-1])
        dcarry = (found[1:] * met[:-1]).sum(-1, keepdim=True).sum_to_size(carry.shape)
        return dcarry, found[1:], found[0]
