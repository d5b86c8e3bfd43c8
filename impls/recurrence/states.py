"""The states between chunks: S_{n+1} = carry_n S_n + add_n.

X rows (batch and heads folded), S chunks, D query/key width, M value width; G = 1 or D decays.
"""

import torch
from torch import Tensor


def states(
    carry: Tensor | float, add: Tensor, first: Tensor | None = None, *, backwards: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute the state before each chunk, [X, S, D, M], and the one after all, [X, D, M]; differentiable.

    `carry` [X, S, G, 1], [X, 1, G, 1] or 1; `add` [X, S, D, M]; `first` [X, D, M], 0 by default. `backwards` starts with the
    last chunk and moves to the first, as gradients do.
    """
    S = add.shape[1]
    carries = [1.0] * S if isinstance(carry, float) else carry.expand(-1, S, -1, -1).unbind(1)
    adds, state = add.unbind(1), torch.zeros_like(add[:, 0]) if first is None else first
    met = []
    for n in reversed(range(S)) if backwards else range(S):
        met.append(state)
        state = _moved(carries[n], state, adds[n])
    return torch.stack(met[::-1] if backwards else met, 1), state


def _moved(carry: Tensor | float, state: Tensor, add: Tensor) -> Tensor:
    return state + add if isinstance(carry, float) else torch.addcmul(add, carry, state)
