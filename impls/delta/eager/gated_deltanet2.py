"""Gated DeltaNet-2: what is erased and what is written have gates of their own.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor

from attnbench.api import Problem, Projection

from ...recurrence.decay import Decay
from ...recurrence.heads import each_head
from ...recurrence.walk import Inputs
from ..cost import GATED_DELTA_2
from ..family import DeltaFamily
from ..gates import Pace, log_decay, unit
from ..reference import corrected_attention, corrected_rows
from .delta_rule import corrected
from .pairs import meet


class GatedDeltaNet2(DeltaFamily):
    """Delta rule with two gates, S_t = (I - k_t (b_t ∘ k_t)ᵀ) Diag(α_t) S_{t-1} + k_t (w_t ∘ v_t)ᵀ, o_t = scale S_tᵀ q_t.

    Hatamizadeh et al. 2026, *Gated DeltaNet-2*, in O(N (L + D) M). Inputs are q, k, v, b [B, K, N, D] and w [B, K, N, M] in (0,
    1), and log α [B, K, N, D] ≤ 0; the gate that log α comes from is not part of the attention.
    """

    paper = "arXiv:2605.22791"
    work = GATED_DELTA_2
    # each width of a value is written by a gate of its own
    weighs = False

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v and what both gates and the decay are made from."""
        widths = {"erase": problem.D, "write": problem.M, "decay": problem.D}
        gates = (Projection(name, problem.kv_heads, width) for name, width in widths.items())
        return *super().projections(problem), *gates

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor, pace: Pace | None = None) -> tuple[Tensor, ...]:
        """Return q and k of length 1, v, b = σ(x), w = σ(y), and a log decay for each row; without a pace, take an even one."""
        q, k, v, erase, write, x = super().admit(problem, *raw)
        pace = Pace.even(problem.kv_heads, x) if pace is None else pace
        return unit(q), unit(k), v, erase.sigmoid(), write.sigmoid(), log_decay(x, pace)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:
        """Draw the pace."""
        return {"pace": Pace.drawn(problem.kv_heads, problem.D, generator)}

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks."""
        q, k, v, erase, write, g = inputs
        return corrected(meet(Decay.of(g), (q, each_head(k, erase)), (k,)), each_head(v, write), state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token."""
        q, k, v, erase, write, g = inputs
        state.mul_(g.exp().mT)
        state.addcmul_(k.mT, write * v - (erase * k) @ state)
        return q @ state

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the dense closed form: one triangular system for all N tokens."""
        erase, write, g = gates
        return corrected_attention(q, k, write * v, erase * k, g) * self.scale

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the recurrence up to the last of the tokens `at`."""
        erase, write, g = gates
        return corrected_rows(at, q, k, write * v, erase * k, g) * self.scale
