"""RWKV-7: a diagonal decay and a low-rank step, both of the same earlier state.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math

from torch import Tensor

from attnbench.api import Problem, Projection

from . import dplr
from .cost import DPLR
from .family import ByChunks
from .gates import unit
from .reference import dplr_attention, dplr_rows
from .segments import Inputs


class Rwkv7(ByChunks):
    """S_t = (Diag(exp w_t) + b_t a_tᵀ) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ r_t.

    Paper: Peng et al. 2025, *RWKV-7 "Goose"*, eq. 17 (its state is the transpose). Inputs r, k, v, w, a, b: r is the query, w
    the log decay [B, H, N, D] ≤ 0, a = -κ̂ and b = κ̂ times a rate in (0, 1). Token shift, the maps that these come from, the
    bonus of the current token, norm and gate stand outside. scale is 1, as in the paper.
    """

    paper = "arXiv:2503.14456"
    work = DPLR

    def __init__(self, problem: Problem, chunk: int = 64, scale: float = 1.0) -> None:
        super().__init__(problem, chunk, scale)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """And what the decay, the direction that is taken out, and its rate come from."""
        gates = (Projection(name, problem.H, problem.D) for name in ("decay", "direction", "rate"))
        return *super().projections(problem), *gates

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """R and k divided by √D; v; w = -exp(-1/2) σ(x); -κ̂ and κ̂ times the rate σ(x), κ̂ of length 1."""
        r, k, v, x, kappa, rate = super().admit(problem, *raw)
        kappa, shrunk = unit(kappa), 1 / math.sqrt(problem.D)
        return r * shrunk, k * shrunk, v, x.sigmoid() * -math.exp(-0.5), -kappa, kappa * rate.sigmoid()

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """A diagonal and a low-rank part."""
        return dplr.by_chunks(inputs, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """A diagonal and a low-rank part."""
        return dplr.by_token(inputs, state)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """The dense closed form: one triangular system for all N tokens."""
        return dplr_attention(q, k, v, *gates).mul(self.scale)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """The recurrence, up to the last of these tokens."""
        return dplr_rows(at, q, k, v, *gates) * self.scale
