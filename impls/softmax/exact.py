"""Base class of every softmax attention: the definition, whole and by rows.

B batch, H heads, N tokens, n rows, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Attention, Problem, default_scale

from ..partial.rows import seen_by, softmax_rows
from .reference import softmax_attention


class ExactSoftmax(Attention):
    """softmax(q kᵀ / √D) v, Vaswani et al. 2017, eq. 1, if causal over j ≤ i only; a subclass computes it by `forward`."""

    is_softmax = True
    windowed = "sparse.window"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.causal, self.scale = problem.causal, default_scale(problem)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute all N × N scores.

        Keys where key_mask, bool [B, N], is False do not exist; a query that sees no key gets 0.
        """
        return softmax_attention(q, k, v, causal=self.causal, key_mask=key_mask)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the scores of the queries `at` with all keys; key_mask bool [N]."""
        seen = seen_by(at, len(k), causal=self.causal, key_mask=key_mask)
        return softmax_rows(q[at], k, v, self.scale, seen)
