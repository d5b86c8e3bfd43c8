"""Softmax attention of the package xformers.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from importlib import import_module
from typing import Any

from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cell, Cost, Layout, Problem, Scalar, Tier, Workload

from ..exact import ExactSoftmax
from ..library.limits import misaligned
from ..work import cost, fused_flops, refuse_parameters


class XformersSoftmax(ExactSoftmax):
    """`memory_efficient_attention` of the package xformers, with the kernel that it chooses, on CUDA.

    Rabe & Staats 2021, in O(N²) time and O(N) memory. The package takes [B, N, H, D], in which inputs are laid out, so nothing
    is transposed. No key masks, no shared heads (its five-dimensional form) and no decoding.
    """

    paper = "arXiv:2112.05682"
    tier = Tier.LIBRARY
    layout = Layout.BNHD
    requires = ("xformers>=0.0.23",)
    devices = ("cuda",)
    dtypes = UP_TO_FLOAT32
    grouped = False

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        ops: Any = import_module("xformers.ops")
        self._attend, self._bias = ops.memory_efficient_attention, ops.LowerTriangularMask() if problem.causal else None

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse widths that are not aligned for its kernels."""
        return misaligned(cell.problem, 16 // cell.problem.dtype.bytes)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips what a causal call hides. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], differentiable."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o: Tensor = self._attend(q, k, v, attn_bias=self._bias, scale=self.scale)
        return o.transpose(1, 2)
