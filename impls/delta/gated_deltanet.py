"""Gated DeltaNet: the state fades before the delta rule reads it.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Problem

from .cost import GATED_DELTA
from .deltanet import DeltaNet
from .drawing import log_decays


class GatedDeltaNet(DeltaNet):
    """S_t = α_t S_{t-1} + β_t k_t (v_t - α_t S_{t-1}ᵀ k_t)ᵀ, o_t = scale S_tᵀ q_t.

    Paper: Yang et al. 2024, *Gated Delta Networks*, eq. 10. Inputs q, k, v, β and log α [B, H, N] ≤ 0; the gate that log α
    comes from stands outside.
    """

    paper = "arXiv:2412.06464"
    work = GATED_DELTA

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Those of DeltaNet, and one log decay for each token and head."""
        return *super().inputs(problem, generator), log_decays(problem, 1, generator, cls.layout).squeeze(-1)
