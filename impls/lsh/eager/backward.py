"""The backward of eager/forward.py: dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O)) (Dao et al. 2022, appendix B.2).

Letters are those of eager/rows.py. Each round needs only the final output and the log of the sum of a token's scores.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .forward import sees_nothing
from .hiding import HIDDEN
from .ring import Stretch
from .rows import Rows, Shared, shared


def gradients_into(
    out: tuple[Tensor, Tensor], rows: Rows, inputs: tuple[Tensor, Tensor], final: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Write dL/dqk [B N, D] and dL/dv [B N, M]; `final` is dL/do and o [B N, M], and log₂ Σ 2^score [B N]."""
    (qk, v), (g, _, log_total) = inputs, final
    keys, slots, alone = shared(qk, rows.scale), rows.slots, sees_nothing(log_total)
    back = _Slots(rows, keys, v, _asked(*final, alone, tame=keys.tame))
    for part in rows.stretches:
        back.add(part)
    out[1].copy_(slots.add_up(slots.fold_ends_(back.dv)))
    out[1][alone] += g[alone].to(out[1].dtype)
    dk_ND = slots.add_up(slots.fold_ends_(back.dk))
    _through_norm(out[0], slots.add_up(back.dq), dk_ND, keys)


@dataclass(frozen=True)
class _Asked:
    """The part that each token has as a query; a last row, g = 0, is for slots without a query.

    dS = 2^(score - shift) ∘ (g Vᵀ - slope), with g [B N + 1, M] and slope, shift [B N + 1]. The share of a score is 2^(score -
    log total): where scores are tame, g and slope include the log total, so that no tile needs a pass for it.
    """

    g: Tensor
    slope: Tensor
    shift: Tensor | None


def _asked(g: Tensor, o: Tensor, log_total: Tensor, alone: Tensor, *, tame: bool) -> _Asked:
    slope, shift = (g * o).sum(-1), log_total.index_fill(0, alone, HIDDEN)
    if not tame:
        return _Asked(F.pad(g, (0, 0, 0, 1)), F.pad(slope, (0, 1)), F.pad(shift, (0, 1), value=HIDDEN))
    weights = shift.neg_().exp2_()
    weighted = g.new_empty(len(g) + 1, g.shape[1])
    torch.mul(g, weights.unsqueeze(-1), out=weighted[:-1])
    weighted[-1] = 0
    return _Asked(weighted, F.pad(slope.mul_(weights), (0, 1)), None)


class _Slots:
    """dL/dq, dL/dk̂ and dL/dv of each slot, [B C, m, ...], to which stretches add."""

    def __init__(self, rows: Rows, keys: Shared, v: Tensor, asked: _Asked) -> None:
        self.rows, self.keys, self.v, self.asked = rows, keys, v, asked
        self.tiles, D, M = (rows.tiles(), rows.tiles()), keys.qk.shape[1], v.shape[1]
        self.dq, self.dk, self.dv = rows.empty(D), rows.empty(D), rows.empty(M)
        for x in (self.dk, self.dv):
            # no stretch writes these before adding to them
            x.zero_() if rows.slots.ring.after else x[:1].zero_()

    def add(self, part: Stretch) -> None:
        """Add one stretch; what it gathers is freed before the next."""
        (q, k), scale, asked = self.keys.gather(part), self.rows.scale, self.asked
        p = self.rows.scores(part, q, k, self.tiles[0])
        if asked.shift is not None:
            p.sub_(part.gather_asked(asked.shift).unsqueeze(-1))
        p.exp2_()
        g = part.gather_asked(asked.g)
        part.spread_(self.dv, p, g)
        ds = torch.bmm(g, part.gather_around(self.v).mT, out=self.tiles[1][: len(p)])
        ds.sub_(part.gather_asked(asked.slope).unsqueeze(-1)).mul_(p)
        part.own(self.dq).baddbmm_(ds, k, beta=0, alpha=scale)
        part.spread_(self.dk, ds, q, scale)


def _through_norm(out: Tensor, dq: Tensor, dk: Tensor, keys: Shared) -> None:
    """Compute from dL/dk̂, k̂ = q / ‖q‖, the gradient of q: dq + (dk̂ - k̂ (k̂·dk̂)) / ‖q‖; overwrites dq."""
    across = (keys.qk * dk).sum(-1, keepdim=True).mul_(keys.inverse.pow(3))
    torch.addcmul(dq.addcmul_(dk, keys.inverse), keys.qk, across, value=-1, out=out)
