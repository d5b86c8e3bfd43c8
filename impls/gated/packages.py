"""Base class of methods computed by flash-linear-attention: memory order [B, N, H, ·], and no decoding.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from inspect import signature
from typing import ClassVar

from attnbench.api import Cell, Cost, DType, Layout, Problem, Scalar, Workload

from .family import GatedFamily


class OfPackage(GatedFamily):
    """One of our methods (`method`) computed by the package."""

    layout = Layout.BNHD
    decodes = False
    requires = ("fla-core>=0.6", "triton>=3.3")
    method: ClassVar[type[GatedFamily]]

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what the method refuses, and float64."""
        if reason := cls.method.why_not(cell):
            return reason
        return "it computes in float32, not in float64" if cell.problem.dtype is DType.FLOAT64 else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes without the package. Raises TypeError or ValueError on bad parameters."""
        signature(cls).bind(problem, **params)
        return cls.cost_of(problem, cls.method.on_paper(problem, params), workload)

    @classmethod
    def cost_of(cls, problem: Problem, method: GatedFamily, workload: Workload) -> Cost:
        """Compute the cost of the package's own algorithm."""
        raise NotImplementedError
