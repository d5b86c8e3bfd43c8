"""DeltaNet: what a key already stands for is taken out before the new value is written.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Problem

from . import delta_rule
from .cost import DELTA
from .drawing import strengths, unit
from .family import ByChunks
from .reference import delta_attention
from .segments import Inputs


class DeltaNet(ByChunks):
    """S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ, o_t = scale S_tᵀ q_t.

    Paper: Yang et al. 2024, eq. 1 and section 3. Inputs q, k, v and β [B, H, N] in (0, 1); q and k are drawn with length 1: the
    norm, like the sigmoid, stands outside. scale is 1/√D where not given, as in flash-linear-attention; the paper has none.
    """

    paper = "arXiv:2406.06484"
    work = DELTA

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """q, k of length 1, v ~ N(0, 1), β = σ(N(0, 1))."""
        q, k, v = super().inputs(problem, generator)
        return unit(q), unit(k), v, strengths(problem, generator, cls.layout)

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """With a decay where the inputs have one."""
        return delta_rule.by_chunks(inputs, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """With a decay where the inputs have one."""
        return delta_rule.by_token(inputs, state)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """The dense closed form: one triangular system for all N tokens."""
        return delta_attention(q, k, v, *gates).mul(self.scale)
