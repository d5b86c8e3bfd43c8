"""Gated DeltaNet: the state decays before the delta rule reads it.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor

from attnbench.api import Problem, Projection

from ..cost import GATED_DELTA
from ..gates import Pace, log_decay
from .deltanet import DeltaNet


class GatedDeltaNet(DeltaNet):
    """Gated delta rule S_t = α_t S_{t-1} + β_t k_t (v_t - α_t S_{t-1}ᵀ k_t)ᵀ, o_t = scale S_tᵀ q_t, in O(N (L + D) M).

    Yang et al. 2024, *Gated Delta Networks*, eq. 10. Inputs are q, k, v, β and log α [B, K, N] ≤ 0; the gate that log α comes
    from is not part of the attention.
    """

    paper = "arXiv:2412.06464"
    work = GATED_DELTA

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name the projections of DeltaNet, and the number from which the decay is made."""
        return *super().projections(problem), Projection("decay", problem.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor, pace: Pace | None = None) -> tuple[Tensor, ...]:
        """Return DeltaNet's inputs, and one log decay for each token and head of k; without a pace, take an even one."""
        *others, x = raw
        pace = Pace.even(problem.kv_heads, x) if pace is None else pace
        return *super().admit(problem, *others), log_decay(x, pace).squeeze(-1)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:
        """Draw the pace."""
        return {"pace": Pace.drawn(problem.kv_heads, 1, generator)}
