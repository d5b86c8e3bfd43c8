"""The part of each key that remains by the time a later query reads it, where the log scale rises in between.

B batch and heads of k folded, R heads of q that share one, T = S L tokens of a segment in S chunks of L.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .keys import Scale
from .segments import Segment


@dataclass(frozen=True)
class Gate:
    """The shares that remain: exp of differences of the log scale c, all at most 1.

    `pairs` [BS, L R, L] from key j to a query of token i of its chunk, `read` [BS, L R, 1] from the chunk's start to such a
    query, `add` [BS, L, 1] from key j to the chunk's end, `carry` [B, S, 1, 1] over the chunk.
    """

    pairs: Tensor
    read: Tensor
    add: Tensor
    carry: Tensor


def gate(segment: Segment, before: Scale, scale: Scale, R: int) -> Gate | None:
    """Compute shares from the scale before the segment, [B, 1, 1], and at each token, [B, T, 1]; None without scales."""
    if before is None or scale is None:
        return None
    c_BSL = scale.view(scale.shape[0], -1, segment.chunk)
    ends = c_BSL[..., -1:]
    starts = torch.cat([before, ends[:, :-1]], dim=1)
    pairs = (c_BSL.unsqueeze(2) - c_BSL.unsqueeze(3)).clamp_(max=0).exp_()  # above the diagonal it would exceed 1
    read, add = (starts - c_BSL).exp_(), (c_BSL - ends).exp_()
    pairs, read, add = (x.flatten(0, 1) for x in (pairs, read.unsqueeze(-1), add.unsqueeze(-1)))
    if R > 1:
        pairs, read = (x.repeat_interleave(R, 1) for x in (pairs, read))
    return Gate(pairs, read, add, (starts - ends).exp_().unsqueeze(-1))
