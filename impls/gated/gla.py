"""GLA: each row of the state forgets at a rate that every token sets anew.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Problem, default_scale, draw

from .cost import Extra
from .family import GatedFamily, Terms


class GLA(GatedFamily):
    """Gated linear attention, S_t = diag(α_t) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ q_t / √D, in O(N (L + D) M).

    Paper: Yang et al. 2024, section 4; 1/√D is that of their code. Inputs: q, k, v and log α [B, H, N, D] ≤ 0, finite. How α
    comes from the tokens (by a matrix of low rank), norm and gate are outside. Raises ValueError where chunk < 1.
    """

    paper = "arXiv:2312.06635"

    @property
    def scale(self) -> float:
        """1 / √D."""
        return default_scale(self.problem)

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """q, k, v from N(0, 1), and log α = log σ(N(0, 1)) / 16, their temperature."""
        q, k, v = super().inputs(problem, generator)
        # log σ(x) = -softplus(-x), which keeps the layout
        return q, k, v, F.softplus(draw(problem, problem.H, problem.D, generator, cls.layout)) / -16

    @property
    def extra(self) -> Extra:
        """Log α, which is an input."""
        p = self.problem
        return Extra(gates=p.D, G=p.D, decay_gradients=p.D * p.dtype.bytes)

    def terms(self, *inputs: Tensor) -> Terms:
        """Of q, k, v, log α."""
        q, k, v, log_decay = inputs
        return Terms(q, k, v, log_decay)
