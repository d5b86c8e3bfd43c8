"""DeltaNet: the value that a key already retrieves is removed before the new value is written.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Problem, Projection

from ...recurrence.walk import Inputs
from ..cost import DELTA
from ..family import DeltaFamily
from ..gates import strength, unit
from ..reference import delta_attention, delta_rows
from . import delta_rule


class DeltaNet(DeltaFamily):
    """Delta rule S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ, o_t = scale S_tᵀ q_t, by chunks in O(N (L + D) M).

    Yang et al. 2024, sections 2.2 and 3.1. Inputs are q, k, v and β [B, K, N] in (0, 1). `admit` gives q and k length 1: the
    norm, like the sigmoid, is not part of the attention. scale defaults to 1/√D, as in flash-linear-attention; the paper has
    none.
    """

    paper = "arXiv:2406.06484"
    work = DELTA

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v and the number from which β is made."""
        return *super().projections(problem), Projection("strength", problem.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q and k of length 1, v, and β = σ(x)."""
        q, k, v, x = super().admit(problem, *raw)
        return unit(q), unit(k), v, strength(x)

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks, with a decay where the inputs have one."""
        return delta_rule.by_chunks(inputs, state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token, with a decay where the inputs have one."""
        return delta_rule.by_token(inputs, state)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the dense closed form: one triangular system for all N tokens."""
        return delta_attention(q, k, v, *gates).mul(self.scale)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the recurrence up to the last of the tokens `at`."""
        return delta_rows(at, q, k, v, *gates) * self.scale
