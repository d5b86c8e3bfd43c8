"""Sums of chunk states before, or after, each chunk of a segment.

B batch and heads folded, S chunks in the segment, C width of φ, W value width with its column of ones. With maps that carry a
log scale the state shrinks by `carry` [B, S, 1, 1] over each chunk.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def states_before(added: Tensor, state: Tensor, carry: Tensor | None = None) -> Tensor:
    """Compute the state before each chunk [BS, C, W], and update `state` [B, C, W] past the segment, in place.

    `added` [BS, C, W] is what each chunk adds; the result has its dtype, while the sum runs in that of `state`. Katharopoulos
    et al. 2020, eq. 10-11, by chunks.
    """
    each_BSCW: Tensor = added.unflatten(0, (state.shape[0], -1))
    scans = added.is_cuda and carry is None
    met = _scan(each_BSCW, state) if scans else _walk(each_BSCW, state, range(each_BSCW.shape[1]), carry)
    return met.flatten(0, 1)


def states_after(added: Tensor, state: Tensor, carry: Tensor | None = None) -> Tensor:
    """Compute the same from the other end: sums over the later chunks, for the backward."""
    each_BSCW: Tensor = added.unflatten(0, (state.shape[0], -1))
    if added.is_cuda and carry is None:
        return _scan(each_BSCW.flip(1), state).flip(1).flatten(0, 1)
    return _walk(each_BSCW, state, reversed(range(each_BSCW.shape[1])), carry).flatten(0, 1)


def _walk(added: Tensor, state: Tensor, order: Iterable[int], carry: Tensor | None = None) -> Tensor:
    """Sum one chunk after the other: on a CPU ten times faster than cumsum, whose lanes stride over the states."""
    met = torch.empty_like(added)
    for i in order:
        met[:, i] = state
        if carry is not None:
            state *= carry[:, i]
        state += added[:, i]
    return met


def _scan(added: Tensor, state: Tensor) -> Tensor:
    """Sum all chunks at once, for a device where launches cost more than passes."""
    sums = torch.cat([state.unsqueeze(1), added.to(state.dtype)], dim=1).cumsum(1)
    state.copy_(sums[:, -1])
    return sums[:, :-1].to(added.dtype)
