"""Attention in all rounds of hashing, a few chunks at a time, with the letters of eager/rows.py.

Rounds are parts of one softmax over all candidates of all rounds (Kitaev et al. 2020, eq. 3 and 6).
"""

import torch
from torch import Tensor

from .hiding import SEES_NOTHING
from .ring import Slots
from .rows import Rows, shared


def attend_into(out: Tensor, rows: Rows, qk: Tensor, v: Tensor) -> Tensor:
    """Attend: [B N, D], [B N, M]; write the output [B N, M] to `out`, and return log₂ Σ 2^score of each token [B N]."""
    inputs, tiles = shared(qk, rows.scale), rows.tiles()
    o, top, total = rows.empty(v.shape[1]), None if inputs.tame else rows.empty(), rows.empty()
    for part in rows.stretches:
        p = rows.scores(part, *inputs.gather(part), tiles)
        if top is not None:
            torch.amax(p, -1, out=part.own(top))
            p.sub_(part.own(top).unsqueeze(-1))
        torch.sum(p.exp2_(), -1, out=part.own(total))
        torch.bmm(p, part.gather_around(v), out=part.own(o))
    log_total = _join_tame(out, rows.slots, o, total) if top is None else _join(out, rows.slots, o, total, top)
    alone = sees_nothing(log_total)
    out[alone] = v[alone].to(out.dtype)
    return log_total


def sees_nothing(log_total: Tensor) -> Tensor:
    """List the tokens that see only themselves in all rounds; they get their own values."""
    return (log_total < SEES_NOTHING).nonzero().squeeze(-1)


def _join_tame(out: Tensor, slots: Slots, o: Tensor, total: Tensor) -> Tensor:
    """Join the rounds, from Σ 2^score v and Σ 2^score of each slot."""
    total_N = total.flatten()[slots.places].sum(-1)
    torch.div(slots.add_up(o), total_N.unsqueeze(-1), out=out)
    return total_N.log2_()


def _join(out: Tensor, slots: Slots, o: Tensor, total: Tensor, top: Tensor) -> Tensor:
    """Join the rounds, from Σ 2^(score - top) v and Σ 2^(score - top) of each slot."""
    total_NR, top_NR = (x.flatten()[slots.places] for x in (total, top))
    highest_N1 = top_NR.amax(-1, keepdim=True)
    weights_NR = top_NR.sub_(highest_N1).exp2_()
    total_N = total_NR.mul_(weights_NR).sum(-1)
    torch.div(slots.add_up(o, weights_NR), total_N.unsqueeze(-1), out=out)
    return total_N.log2_().add_(highest_N1.squeeze(-1))
