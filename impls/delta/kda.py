"""Kimi Delta Attention: every row of the state fades at its own rate before the delta rule reads it.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Problem

from .cost import KDA
from .deltanet import DeltaNet
from .drawing import log_decays


class KimiDelta(DeltaNet):
    """S_t = (I - β_t k_t k_tᵀ) Diag(α_t) S_{t-1} + β_t k_t v_tᵀ, o_t = scale S_tᵀ q_t.

    Paper: Kimi Team 2025, *Kimi Linear*, eq. 1. Inputs q, k, v, β and log α [B, H, N, D] ≤ 0; the gate that log α comes from
    stands outside.
    """

    paper = "arXiv:2510.26692"
    work = KDA

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Those of DeltaNet, and a log decay for each token, head and row of the state."""
        return *super().inputs(problem, generator), log_decays(problem, problem.D, generator, cls.layout)
