"""DeltaNet: what a key already stands for is taken out before the new value is written.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Problem, Projection

from . import delta_rule
from .cost import DELTA
from .family import ByChunks
from .gates import strength, unit
from .reference import delta_attention, delta_rows
from .segments import Inputs


class DeltaNet(ByChunks):
    """S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ, o_t = scale S_tᵀ q_t.

    Paper: Yang et al. 2024, eq. 1 and section 3. Inputs q, k, v and β [B, H, N] in (0, 1); q and k are admitted with length 1:
    the norm, like the sigmoid, stands outside. scale is 1/√D where not given, as in flash-linear-attention; the paper has none.
    """

    paper = "arXiv:2406.06484"
    work = DELTA

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """And what β comes from."""
        return *super().projections(problem), Projection("strength", problem.H, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """q, k of length 1, v, β = σ(x)."""
        q, k, v, x = super().admit(problem, *raw)
        return unit(q), unit(k), v, strength(x)

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """With a decay where the inputs have one."""
        return delta_rule.by_chunks(inputs, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """With a decay where the inputs have one."""
        return delta_rule.by_token(inputs, state)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """The dense closed form: one triangular system for all N tokens."""
        return delta_attention(q, k, v, *gates).mul(self.scale)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """The recurrence, up to the last of these tokens."""
        return delta_rows(at, q, k, v, *gates) * self.scale
