"""DeltaProduct: several steps of the delta rule for each token, so that its transition is a product of reflections.

B, b batch, H heads, K heads of k and v, N tokens, D query/key width, M value width, W writes of a token; X rows (batch and
heads of k and v folded), S chunks of L tokens.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from attnbench.api import Problem, Projection

from ...recurrence.decay import Decay
from ...recurrence.heads import each_head_
from ...recurrence.walk import Inputs
from ..cost import product_of
from ..family import DeltaFamily
from ..gates import Pace, log_decay, unit
from ..reference import corrected_attention, corrected_rows
from .delta_rule import corrected
from .pairs import Met


class DeltaProduct(DeltaFamily):
    """W = 2 delta rules a token: for j = 1 … W, S <- S + β_tj k_tj (v_tj - Sᵀ k_tj)ᵀ; then o_t = scale Sᵀ q_t.

    Siems et al. 2025, *DeltaProduct*, section 3, in O(N (W² L + W D) M). Inputs are q, k, v, strengths β [B, K, N, W] in (0,
    2), which allow reflections, and the keys [B, K, N, (W - 1) D] and values [B, K, N, (W - 1) M] of the further writes. A
    subclass with another `writes`, 2 or more, writes as often.
    """

    paper = "arXiv:2502.10297"
    # further writes have values of their own
    weighs = False
    writes: ClassVar[int] = 2
    decays: ClassVar[int] = 0
    """The decays of a token."""
    work = product_of(writes, decays)

    def __init_subclass__(cls) -> None:
        cls.work = product_of(cls.writes, cls.decays)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, the numbers from which β is made, and the keys and values of further writes."""
        p, more = problem, cls.writes - 1
        further = Projection("keys", p.kv_heads, more * p.D), Projection("values", p.kv_heads, more * p.M)
        return *super().projections(p), Projection("strength", p.kv_heads, cls.writes), *further

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q and all keys of length 1, the values, and β = 2 σ(x)."""
        q, k, v, x, keys, values = super().admit(problem, *raw)
        keys = unit(keys.unflatten(-1, (cls.writes - 1, -1))).flatten(-2)
        return unit(q), unit(k), v, 2 * x.sigmoid(), keys, values

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks, with a decay where the inputs have one."""
        q, k, v, beta, g = _each_write(inputs)
        # where nothing decays, a chunk of one row stands for all
        decay = Decay.of((g if self.decays else g[:1, :1])[:, :, :: self.writes])
        # all writes of a token are made after its decay, and its query sees them all
        at_writes = Decay(decay.c.repeat_interleave(self.writes, 2), decay.kind)
        q, removed, remains = q.contiguous(), k * beta, at_writes.pairs_left
        scores = each_head_(q @ k.mT, remains[:, :, self.writes - 1 :: self.writes]), (removed @ k.mT).mul_(remains)
        carry = decay.carry if self.decays else None
        met = Met(scores, (decay.read(q), at_writes.read(removed)), (at_writes.write(k),), carry=carry)
        return corrected(met, v * beta, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token, with a decay where the inputs have one."""
        q, *writes, g = _each_write(inputs)
        state.mul_(g[:, :, :1].exp())
        for k, v, beta in zip(*(x.split(1, -2) for x in writes), strict=True):
            state.addcmul_(k.mT, (v - k @ state) * beta)
        return q @ state

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the dense closed form of N W steps, of which every W-th has a query."""
        q, k, v, beta, g = _each_write((q, k, v, *gates))
        asks = q.repeat_interleave(self.writes, 2)
        return corrected_attention(asks, k, beta * v, beta * k, g)[:, :, self.writes - 1 :: self.writes] * self.scale

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the recurrence up to the last of the tokens `at`."""
        q, k, v, beta, g = (x[0, 0] for x in _each_write(tuple(x[None, None] for x in (q, k, v, *gates))))
        asks = q.repeat_interleave(self.writes, 0)
        return corrected_rows(at * self.writes + self.writes - 1, asks, k, beta * v, beta * k, g) * self.scale


class GatedDeltaProduct(DeltaProduct):
    """DeltaProduct whose state decays before the writes of a token, S <- α_t S.

    Siems et al. 2025, section 3. Inputs are those of DeltaProduct and log α [B, K, N] ≤ 0; the gate that log α comes from is
    not part of the attention.
    """

    decays = 1

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name the projections of DeltaProduct, and the number from which the decay is made."""
        return *super().projections(problem), Projection("decay", problem.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor, pace: Pace | None = None) -> tuple[Tensor, ...]:
        """Return DeltaProduct's inputs, and one log decay for each token and head of k; without a pace, take an even one."""
        *others, x = raw
        pace = Pace.even(problem.kv_heads, x) if pace is None else pace
        return *super().admit(problem, *others), log_decay(x, pace).squeeze(-1)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:
        """Draw the pace."""
        return {"pace": Pace.drawn(problem.kv_heads, 1, generator)}


def _each_write(inputs: Inputs) -> Inputs:
    """Give each write its own row: q as it is, and of each write k, v, β and the log decay before it, [*, L W, ·]."""
    q, k, v, beta, keys, values, *log_decay = inputs
    writes = beta.shape[-1]
    k, v = (torch.cat(x, -1).unflatten(-1, (writes, -1)).flatten(-3, -2) for x in ((k, keys), (v, values)))
    g = log_decay[0].reshape(*beta.shape[:-1], 1) if log_decay else torch.zeros_like(beta[..., :1])
    # only the first write of a token follows on a decay
    g = torch.cat((g, g.new_zeros(*g.shape[:-1], writes - 1)), -1)
    return q, k, v, beta.flatten(-2).unsqueeze(-1), g.flatten(-2).unsqueeze(-1)
