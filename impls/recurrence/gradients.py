"""What a segment's backward gives, and how the gradient of decays falls out of what it computes anyway.

X rows (batch and heads folded), S chunks of L tokens, D query/key width, M value width; G = 1 or D decays. With c the log
decays summed up from a chunk's start, c_i stands beside q_i and -c_i beside k_i wherever they occur, and c_L before the state.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Gradients(NamedTuple):
    """Of q, k [X, S, L, D], v [X, S, L, M], the log decays [X, S, L, G] where asked for, and the state before, [X, D, M]."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor | None
    state: Tensor


def net(q: Tensor, dq: Tensor, k: Tensor, dk: Tensor) -> Tensor:
    """dL/dc = q ∘ dL/dq - k ∘ dL/dk by all that dq and dk come from, row by row [X, S, L, D]; Yang et al. 2024 (GLA).

    What multiplies q and divides dL/dq, or k and dL/dk, changes nothing.
    """
    return (q * dq).addcmul_(k, dk, value=-1)


def net_of_pairs(scores: Tensor, dscores: Tensor) -> Tensor:
    """dL/dc by the pairs of a chunk where G = 1, [X, S, L, 1]: of its query in, of its key out; scores [X, S, L, L].

    The same as `net`, but √D times more exact: q and dL/dq are nearly orthogonal. A pair of a token with itself has no decay.
    """
    flow = (scores * dscores).tril_(-1)
    return flow.sum(-1, keepdim=True) - flow.sum(-2).unsqueeze(-1)


def of_log_decay(dc: Tensor, met: Tensor, last: Tensor, after: Tensor) -> Tensor:
    """From dL/dc [X, S, L, G], the states that chunks meet and dL/d(those they leave) [X, S, D, M], the last state [X, D, M].

    S ∘ dL/dS of the state after a chunk is dL/dc_L by it; a log decay is in the c of its token and of all later ones.
    """
    at_the_end = torch.cat((met[:, 1:], last.unsqueeze(1)), 1).mul_(after).sum(-1)
    dc[:, :, -1] += at_the_end if dc.shape[-1] > 1 else at_the_end.sum(-1, keepdim=True)
    return dc.flip(2).cumsum(2).flip(2)
