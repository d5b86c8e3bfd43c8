"""Softmax attention of the package flash-attn.

B batch, H heads, K heads of k and v, N tokens, D width of queries, keys and values.
"""

from importlib import import_module
from typing import Any

from torch import Tensor

from attnbench.api import HALF, Cost, Layout, Problem, Scalar, Tier, Workload

from ..exact import ExactSoftmax
from ..work import cost, fused_flops, refuse_parameters


class FlashAttnSoftmax(ExactSoftmax):
    """`flash_attn_func` of the package flash-attn: FlashAttention-2 by its authors, on CUDA.

    Dao 2023, in O(N²) time and O(N) memory. The package takes [B, N, H, D], in which inputs are laid out, so nothing is
    transposed. No key masks (its packed form for sequences of different lengths is another function) and no decoding.
    """

    paper = "arXiv:2307.08691"
    tier = Tier.LIBRARY
    layout = Layout.BNHD
    requires = ("flash-attn>=2.5",)
    devices = ("cuda",)
    dtypes = HALF
    one_width = True
    widths = (1, 256)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        package: Any = import_module("flash_attn")
        self._attend = package.flash_attn_func

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips what a causal call hides. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, D] -> [B, H, N, D], differentiable."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o: Tensor = self._attend(q, k, v, softmax_scale=self.scale, causal=self.causal)
        return o.transpose(1, 2)
