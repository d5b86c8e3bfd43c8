"""Attention in all rounds of hashing and its backward, a few chunks at a time.

B rows (batch and heads folded), all or those taken together, whose tokens then are numbered through; R rounds, N tokens, D
query/key width, M value width; C chunks of m slots in a row, L chunks of queries at once, S slots of a window
(reformer_ring.py). Rounds are parts of one softmax over all candidates of all rounds, so the backward of each needs only the
final output and logsumexp.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..partial.softmax import sums
from .reformer_hiding import HIDDEN, SEES_NOTHING, Bias, Hiding
from .reformer_ring import Slots, Stretch

ROWS = 2**13
"""Slots of the rows taken together on a CPU, or one row: enough that calls are few."""

AT_ONCE = 2**12
"""Slots of queries attended at once on a CPU: their tiles stay in its cache."""

_NORM_EPS = 1e-12


@dataclass(frozen=True)
class Sorted:
    """Positions in sorted order, int32 [B, R, N], and their buckets, where other buckets are hidden."""

    order: Tensor
    buckets: Tensor | None


@dataclass(frozen=True)
class Terms:
    """What is hidden from whom, and the scale of the logits."""

    hiding: Hiding
    scale: float


def attend_rounds(qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> Tensor:
    """Σ over candidates of all rounds of softmax(q·k̂ scale) v: [B, N, D], [B, N, M] -> [B, N, M].

    Kitaev et al. 2020, eq. 3 and 6: rounds weighted by exp(z_r - z) are one softmax. A token that sees none but itself in all
    rounds gets its own value. Once differentiable; keeps inputs, output, order and one number for each token. Half precision
    is computed in float32.
    """
    if torch.is_grad_enabled() and (qk.requires_grad or v.requires_grad):
        out: Tensor = _Rounds.apply(qk, v, given, terms)  # type: ignore[no-untyped-call]
        return out
    return _forward(qk, v, given, terms)[0]


class _Rounds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> Tensor:  # noqa: ANN401
        o, logsumexp = _forward(qk, v, given, terms)
        ctx.save_for_backward(qk, v, o, logsumexp, given.order, given.buckets)
        ctx.terms = terms
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        qk, v, o, logsumexp, order, buckets = ctx.saved_tensors
        dqk, dv = torch.empty_like(qk), torch.empty_like(v)
        for rows, part in _rows(qk, Sorted(order, buckets), ctx.terms):
            inputs = part.tokens(qk[rows]), part.tokens(v[rows])
            final = part.tokens(g[rows]), part.tokens(o[rows]), logsumexp[rows].flatten()
            dqk[rows], dv[rows] = (x.view(-1, qk.shape[1], x.shape[1]) for x in _gradients(part, inputs, *final))
        return dqk, dv, None, None


def _forward(qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> tuple[Tensor, Tensor]:
    """The output [B, N, M] and the logsumexp [B, N]."""
    o, logsumexp = torch.empty_like(v), torch.empty(v.shape[:2], dtype=sums(v.dtype), device=v.device)
    for rows, part in _rows(qk, given, terms):
        attended = _attend(part, part.tokens(qk[rows]), part.tokens(v[rows]))
        o[rows], logsumexp[rows] = (x.unflatten(0, (-1, qk.shape[1])) for x in attended)
        del attended  # before the next are made
    return o, logsumexp


@dataclass(frozen=True)
class _Rows:
    """Some rows, and what is hidden in them."""

    slots: Slots
    bias: Bias
    scale: float
    dtype: torch.dtype

    def tokens(self, x: Tensor) -> Tensor:
        """[B, N, M] -> [B N, M] in the dtype of the arithmetic."""
        return x.flatten(0, 1).to(self.dtype)

    def empty(self, *widths: int) -> Tensor:
        """Room for something of each slot: [B C, m, ...]."""
        return torch.empty(*self.slots.tokens.shape, *widths, dtype=self.dtype, device=self.slots.order.device)

    @cached_property
    def stretches(self) -> list[Stretch]:
        """Chunks of queries that are attended at once."""
        return list(self.slots.stretches(max(1, room(self.slots.order, AT_ONCE) // self.slots.ring.m)))

    def tiles(self) -> Tensor:
        """Room for the scores of the longest stretch, [L, m, S]."""
        ring, L = self.slots.ring, max(len(s.chunks) for s in self.stretches)
        return torch.empty(L, ring.m, ring.near * ring.m, dtype=self.dtype, device=self.slots.order.device)

    def scores(self, part: Stretch, q: Tensor, k: Tensor, out: Tensor) -> Tensor:
        """[L, m, S]: scaled products with what is hidden taken off."""
        out = out[: len(part.chunks)]
        self.bias.write(out, part)
        out.baddbmm_(q, k.mT, beta=float(not self.bias.is_plain), alpha=self.scale)
        self.bias.hide_self_(out, part)
        return out


def _rows(qk: Tensor, given: Sorted, terms: Terms) -> Iterator[tuple[slice, _Rows]]:
    """Rows taken together."""
    ring, dtype = terms.hiding.ring, sums(qk.dtype)
    step = max(1, room(qk, ROWS) // (ring.C * ring.m))
    for rows in (slice(a, a + step) for a in range(0, len(qk), step)):
        slots = Slots(ring, given.order[rows])
        bias = Bias(terms.hiding, slots, None if given.buckets is None else given.buckets[rows], dtype)
        yield rows, _Rows(slots, bias, terms.scale, dtype)


def _attend(rows: _Rows, qk: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """[B N, D], [B N, M] -> the output [B N, M] and its logsumexp [B N]."""
    keys, tiles = qk / _norm(qk), rows.tiles()
    o, top, total = rows.empty(v.shape[1]), rows.empty(), rows.empty()
    for part in rows.stretches:
        p = rows.scores(part, part.gather(qk), part.gather_around(keys), tiles)
        torch.amax(p, -1, out=part.own(top))
        p.sub_(part.own(top).unsqueeze(-1)).exp_()
        torch.sum(p, -1, out=part.own(total))
        torch.bmm(p, part.gather_around(v), out=part.own(o))
    return _join(rows.slots, o, top, total, v)


def _join(slots: Slots, o: Tensor, top: Tensor, total: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds into one: of each slot Σ exp(s - top) v, top and Σ exp(s - top), and the values of all tokens."""
    top_NR, total_NR = (x.flatten()[slots.places] for x in (top, total))
    logsumexp = total_NR.log_().add_(top_NR).logsumexp(-1)
    o_NM = slots.add_up(o, top_NR.sub_(logsumexp.unsqueeze(-1)).exp_())
    alone = _alone(logsumexp)
    o_NM[alone] = v[alone]
    return o_NM, logsumexp


def _alone(logsumexp_N: Tensor) -> Tensor:
    """Tokens that see none but themselves in any round."""
    return (logsumexp_N < SEES_NOTHING).nonzero().squeeze(-1)


def _gradients(rows: _Rows, inputs: tuple[Tensor, Tensor], g: Tensor, o: Tensor, logsumexp: Tensor) -> tuple[Tensor, Tensor]:
    """dL/dqk [B N, D] and dL/dv [B N, M] from g = dL/do, the output [B N, M] and its logsumexp [B N]."""
    (qk, v), slots, alone = inputs, rows.slots, _alone(logsumexp)
    keys = qk / (norm := _norm(qk))
    # exp(score - logsumexp) is 0 for those alone, and not whatever two large numbers leave
    logsumexp = logsumexp.index_fill(0, alone, 0)
    back = _Backward(rows, (qk, keys, v), g, (g * o).sum(-1), logsumexp)
    for part in rows.stretches:
        back.add(part)
    dv_NM = slots.add_up(slots.fold_ends_(back.dv))
    dv_NM[alone] += g[alone]
    dk_ND = slots.add_up(slots.fold_ends_(back.dk))
    return slots.add_up(back.dq).add_(_through_norm(dk_ND, keys, norm)), dv_NM


class _Backward:
    """dL/dq, dL/dk̂ and dL/dv of each slot: dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O)) (Dao et al. 2022, appendix B.2).

    From q, k̂ and v, g = dL/do, slope = rowsum(g ∘ o) and the logsumexp of each token.
    """

    def __init__(self, rows: _Rows, inputs: tuple[Tensor, ...], g: Tensor, slope: Tensor, logsumexp: Tensor) -> None:
        self.rows, self.inputs, self.g = rows, inputs, g
        self.tiles, slots = (rows.tiles(), rows.tiles()), rows.slots
        self.slope, self.z = slope[slots.tokens], slots.fill_unasked_(logsumexp[slots.tokens], HIDDEN)
        self.dq, self.dk, self.dv = (rows.empty(x.shape[1]) for x in inputs)
        for x in (self.dk, self.dv):
            # written by no stretch before it is added to
            x.zero_() if slots.ring.after else x[:1].zero_()

    def add(self, part: Stretch) -> None:
        """One stretch; what it gathers is gone before the next."""
        (qk, keys, v), scale = self.inputs, self.rows.scale
        q, k, g = part.gather(qk), part.gather_around(keys), part.gather(self.g)
        p = self.rows.scores(part, q, k, self.tiles[0]).sub_(part.own(self.z).unsqueeze(-1)).exp_()
        part.spread_(self.dv, p, g)
        ds = torch.bmm(g, part.gather_around(v).mT, out=self.tiles[1][: len(p)])
        ds.sub_(part.own(self.slope).unsqueeze(-1)).mul_(p)
        part.own(self.dq).baddbmm_(ds, k, beta=0, alpha=scale)
        part.spread_(self.dk, ds, q, scale)


def _norm(qk: Tensor) -> Tensor:
    """[B N, D] -> [B N, 1], as torch.nn.functional.normalize has it."""
    norm: Tensor = qk.norm(dim=-1, keepdim=True).clamp_min_(_NORM_EPS)
    return norm


def _through_norm(dk: Tensor, keys: Tensor, norm: Tensor) -> Tensor:
    """From k̂ = q / ‖q‖ back to q: (dk̂ - k̂ (k̂·dk̂)) / ‖q‖; overwrites dk̂."""
    return dk.addcmul_(keys, (keys * dk).sum(-1, keepdim=True), value=-1).div_(norm)


def room(x: Tensor, slots: int) -> int:
    """Slots taken together; a GPU wants many."""
    return slots if x.device.type == "cpu" else 64 * slots
