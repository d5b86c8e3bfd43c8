"""Base class of the delta rules and RWKV-7, with what they cost.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from typing import ClassVar

from attnbench.api import Cost, Problem, Scalar, Workload

from ..recurrence.by_chunks import ByChunks
from .cost import Work, cost_by_chunks


class DeltaFamily(ByChunks):
    """A recurrence over a state of D × M for each head of k and v, o_t = scale S_tᵀ q_t, in O(N (L + D) M)."""

    work: ClassVar[Work]

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        method = cls(problem, **params)  # type: ignore[arg-type]
        return cost_by_chunks(problem, cls.work, method.chunk, workload)
