"""Mamba-2's state space model: one step size sets both how much a token writes and how much is forgotten.

B batch, H heads of C, K heads of B, x and Δ, N tokens, D state width, M head width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.api import Problem, Projection

from ..recurrence.parts import sums
from .family import GatedFamily, Terms


class Mamba2(GatedFamily):
    """State space duality, S_t = exp(Δ_t A_h) S_{t-1} + Δ_t B_t x_tᵀ, y_t = S_tᵀ C_t, in O(N (L + D) M).

    Dao & Gu 2024, section 5 (a scalar A for each head), discretised as in its code. Inputs are q = C, k = B, v = x and Δ [B, K,
    N] > 0. A_h = -exp(A_log_h), a parameter of each state initialised as in its code, log U(1, 16). Several C may read one
    state, the multi-contract pattern of the paper; heads of the paper's model share B and C instead. The skip D x, the
    convolution, softplus and bias of Δ, gate and norm are not part of the attention. Raises ValueError where chunk < 1.
    """

    paper = "arXiv:2405.21060"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem, chunk)
        self.A_log = nn.Parameter(torch.empty(problem.kv_heads).uniform_(1, 16).log().to(getattr(torch, problem.dtype)))

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and the number from which Δ is made."""
        return *super().projections(problem), Projection("step", problem.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return C, B, x, and Δ = softplus(x - 4), mostly in the range 0.001 … 0.1 where the authors' code begins."""
        q, k, v, steps = super().admit(problem, *raw)
        return q, k, v, F.softplus(steps.squeeze(-1) - 4)

    def terms(self, *inputs: Tensor) -> Terms:
        """Compute the terms from C, B, x and Δ: v = Δ x and log decay Δ A."""
        q, k, v, steps = inputs
        kind = sums(v.dtype)
        log_decay = steps.to(kind) * -self.A_log.to(kind).exp().unsqueeze(-1)
        return Terms(q, k, v * steps.unsqueeze(-1), log_decay.unsqueeze(-1))
