"""RWKV-7: a diagonal decay and a low-rank update, both of the same earlier state.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import math

from torch import Tensor

from attnbench.api import Problem, Projection

from ...recurrence.walk import Inputs
from ..cost import DPLR
from ..family import DeltaFamily
from ..gates import unit
from ..reference import dplr_attention, dplr_rows
from . import dplr


class Rwkv7(DeltaFamily):
    """Diagonal plus low-rank transition, S_t = (Diag(exp w_t) + b_t a_tᵀ) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ r_t.

    Peng et al. 2025. Inputs are r [B, H, N, D], k, v, w, a and b [B, K, N, ·]: all but r belong to the state.
    """

    paper = "arXiv:2503.14456"
    work = DPLR

    def __init__(self, problem: Problem, chunk: int = 32, scale: float = 1.0) -> None:
        super().__init__(problem, chunk, scale)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and what the decay, the direction that is removed, and its rate are made from."""
        gates = (Projection(name, problem.kv_heads, problem.D) for name in ("decay", "direction", "rate"))
        return *super().projections(problem), *gates

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return r and k divided by √D; v; w = -exp(-1/2) σ(x); -κ̂ and κ̂ times the rate σ(x), κ̂ of length 1."""
        r, k, v, x, kappa, rate = super().admit(problem, *raw)
        kappa, shrunk = unit(kappa), 1 / math.sqrt(problem.D)
        return r * shrunk, k * shrunk, v, x.sigmoid() * -math.exp(-0.5), -kappa, kappa * rate.sigmoid()

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks."""
        return dplr.by_chunks(inputs, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token."""
        return dplr.by_token(inputs, state)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the dense closed form: one triangular system for all N tokens."""
        return dplr_attention(q, k, v, *gates).mul(self.scale)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the recurrence up to the last of the tokens `at`."""
        return dplr_rows(at, q, k, v, *gates) * self.scale
