"""The gradients that the backward of some chunks returns, and the gradient of decays, which follows from the others.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, M value width; G = 1
or D decays. With c the log decays summed up from a chunk's start, c_i goes with q_i and -c_i with k_i wherever they occur, and
c_L with the state.
"""

from typing import NamedTuple

from torch import Tensor

from .heads import lower_, over_heads


class Gradients(NamedTuple):
    """Gradients of q [S, X, R L, D], k [S, X, L, D], v [S, X, L, M], log decays [S, X, L, G] or None, and the state before."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor | None
    state: Tensor


def net(q: Tensor, dq: Tensor, k: Tensor, dk: Tensor) -> Tensor:
    """Compute dL/dc = q ∘ dL/dq - k ∘ dL/dk, row by row [S, X, L, D], for the terms in dq and dk; Yang et al. 2024 (GLA).

    The share of q [S, X, R L, D] is summed over its heads. A factor of q that divides dL/dq, or one of k and dL/dk, changes
    nothing.
    """
    return over_heads(q * dq, k.shape[2]).addcmul_(k, dk, value=-1)


def net_of_pairs(scores: Tensor, dscores: Tensor) -> Tensor:
    """Compute dL/dc by the pairs of a chunk where G = 1: [S, X, R L, L] twice -> [S, X, L, 1].

    A pair adds to its query's c and subtracts from its key's. The result is that of `net`, but √D times more exact, because q
    and dL/dq are nearly orthogonal. A pair of a token with itself has no decay.
    """
    flow = lower_(scores * dscores, -1)
    return over_heads(flow.sum(-1, keepdim=True), flow.shape[-1]) - flow.sum(-2).unsqueeze(-1)


def of_log_decay(dc: Tensor, left: Tensor, after: Tensor) -> Tensor:
    """Compute dL/d(log decay) from dL/dc [S, X, L, G] and the states and their gradients; overwrites dc.

    `left` are the states after chunks and `after` their gradients, [S, X, D, M]. Σ S ∘ dL/dS of the state after a chunk is its
    share in dL/dc_L; a log decay is part of c of its token and of all later ones.
    """
    at_the_end = (left * after).sum(-1)
    dc[:, :, -1] += at_the_end if dc.shape[-1] > 1 else at_the_end.sum(-1, keepdim=True)
    return dc.flip(2).cumsum(2).flip(2)
