"""Sums of chunk states before, or after, each chunk of a segment.

B batch and heads folded, S chunks in the segment, D key width, W value width with its column of ones.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def states_before(added: Tensor, state: Tensor) -> Tensor:
    """The state that each chunk meets, and `state` [B, D, W] moved past the segment, in place.

    `added` [BS, D, W] is what each chunk adds; so is the result shaped, in its dtype, while the sum runs in the
    dtype of `state`. Katharopoulos et al. 2020, eq. 10-11, by chunks.
    """
    each_BSDW: Tensor = added.unflatten(0, (state.shape[0], -1))
    met = _scan(each_BSDW, state) if added.is_cuda else _walk(each_BSDW, state, range(each_BSDW.shape[1]))
    return met.flatten(0, 1)


def states_after(added: Tensor, state: Tensor) -> Tensor:
    """The same from the other end: sums over the later chunks, for the backward."""
    each_BSDW: Tensor = added.unflatten(0, (state.shape[0], -1))
    if added.is_cuda:
        return _scan(each_BSDW.flip(1), state).flip(1).flatten(0, 1)
    return _walk(each_BSDW, state, reversed(range(each_BSDW.shape[1]))).flatten(0, 1)


def _walk(added: Tensor, state: Tensor, order: Iterable[int]) -> Tensor:
    """One chunk after the other: on a CPU ten times faster than cumsum, whose lanes stride over the states."""
    met = torch.empty_like(added)
    for i in order:
        met[:, i] = state
        state += added[:, i]
    return met


def _scan(added: Tensor, state: Tensor) -> Tensor:
    """All chunks at once, for a device where launches cost more than passes."""
    sums = torch.cat([state.unsqueeze(1), added.to(state.dtype)], dim=1).cumsum(1)
    state.copy_(sums[:, -1])
    return sums[:, :-1].to(added.dtype)
