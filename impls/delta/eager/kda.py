"""Kimi Delta Attention: every row of the state decays at its own rate before the delta rule reads it.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor

from attnbench.api import Problem, Projection

from ..cost import KDA
from ..gates import Pace, log_decay
from .deltanet import DeltaNet


class KimiDelta(DeltaNet):
    """Delta rule with a decay by row, S_t = (I - β_t k_t k_tᵀ) Diag(α_t) S_{t-1} + β_t k_t v_tᵀ, o_t = scale S_tᵀ q_t.

    Kimi Team 2025, *Kimi Linear*, eq. 1, in O(N (L + D) M). Inputs are q, k, v, β and log α [B, K, N, D] ≤ 0; the gate that log
    α comes from is not part of the attention.
    """

    paper = "arXiv:2510.26692"
    work = KDA

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name the projections of DeltaNet, and the D numbers from which the decay is made."""
        return *super().projections(problem), Projection("decay", problem.kv_heads, problem.D)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor, pace: Pace | None = None) -> tuple[Tensor, ...]:
        """Return DeltaNet's inputs, and a log decay for each token, head and row; without a pace, take an even one."""
        *others, x = raw
        pace = Pace.even(problem.kv_heads, x) if pace is None else pace
        return *super().admit(problem, *others), log_decay(x, pace)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:
        """Draw the pace."""
        return {"pace": Pace.drawn(problem.kv_heads, problem.D, generator)}
