"""Mamba-2's state space model: how much a token writes and how much is forgotten come from one step size of its own.

B batch, H heads, N tokens, D state width, M head width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.api import Problem, Projection

from ..recurrence.parts import sums
from .cost import Extra
from .family import GatedFamily, Terms


class Mamba2(GatedFamily):
    """State space duality, S_t = exp(Δ_t A_h) S_{t-1} + Δ_t B_t x_tᵀ, y_t = S_tᵀ C_t, in O(N (L + D) M).

    Paper: Dao & Gu 2024, section 5 (a scalar A for each head), discretised as in its code. Inputs: q = C, k = B, v = x and
    Δ [B, H, N] > 0. A_h = -exp(A_log_h) by a parameter that starts as theirs, log U(1, 16). Each head has B and C of its own,
    which theirs may share. The skip D x, the convolution, softplus and bias of Δ, gate and norm are outside. Raises ValueError
    where chunk < 1.
    """

    paper = "arXiv:2405.21060"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem, chunk)
        self.A_log = nn.Parameter(torch.empty(problem.H).uniform_(1, 16).log().to(getattr(torch, problem.dtype)))

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """And what Δ comes from."""
        return *super().projections(problem), Projection("step", problem.H, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """C, B, x, and Δ = softplus(x - 4), most within their initial 0.001 … 0.1."""
        q, k, v, steps = super().admit(problem, *raw)
        return q, k, v, F.softplus(steps.squeeze(-1) - 4)

    @property
    def extra(self) -> Extra:
        """Δ x and a log decay for each token; its gradient takes a product as large as x before it is summed."""
        e, s, M = self.problem.dtype.bytes, max(4, self.problem.dtype.bytes), self.problem.M
        return Extra(gates=1, decay_gradients=s, made=e * M + 2 * s, unmade=2 * e * M + 3 * s)

    def terms(self, *inputs: Tensor) -> Terms:
        """Of C, B, x, Δ."""
        q, k, v, steps = inputs
        kind = sums(v.dtype)
        log_decay = steps.to(kind) * -self.A_log.to(kind).exp().unsqueeze(-1)
        return Terms(q, k, v * steps.unsqueeze(-1), log_decay.unsqueeze(-1))
