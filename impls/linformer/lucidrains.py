"""Linformer of the package linformer (lucidrains).

B batch, H heads, N tokens, S projected keys, D width of queries, keys and values. The package's order is [B, N, H · D].
"""

from typing import Any

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Causality, Cost, Layout, Problem, Scalar, Tier, Workload, default_scale

from ..partial.rows import softmax_rows
from .carrier import Carrier, carried
from .cost import cost_of_package
from .options import Options, options_of_k
from .reference import attend_to


class LucidrainsLinformer(Attention):
    """`LinformerSelfAttention` of linformer without its four linear layers: what it computes from q, k and v.

    Wang et al. 2020, eq. 7, with one E and one F for all heads: linformer.linformer with sharing `headwise`. The package's own
    forward runs, with both products with E and F and a softmax in memory; its layers to_q, to_k and to_v are replaced by the
    given tensors, and to_out by the identity. Raises ValueError on a bad k.
    """

    paper = "arXiv:2006.04768"
    tier = Tier.LIBRARY
    causality = Causality.NONE
    layout = Layout.BNHD
    requires = ("linformer>=0.2.3",)
    because = "each projected key mixes all positions"
    grouped = False
    one_width = True

    def __init__(self, problem: Problem, k: int = 256) -> None:
        from linformer import LinformerSelfAttention

        super().__init__(problem)
        p, S = problem, Options(k).slots(problem.N)
        self.attention: Any = LinformerSelfAttention(p.H * p.D, p.N, k=S, heads=p.H, dim_head=p.D)
        self._given = (Carrier(), Carrier(), Carrier())
        self.attention.to_q, self.attention.to_k, self.attention.to_v = self._given
        self.attention.to_out = nn.Identity()
        self.to(getattr(torch, p.dtype))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        S = options_of_k(**params).slots(problem.N)  # type: ignore[arg-type]
        return cost_of_package(problem, workload, S, 2 * S * problem.N)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D] three times -> [B, H, N, D], in the memory order [B, N, H, D]."""
        rows_BNW = tuple(x.transpose(1, 2).flatten(2) for x in (q, k, v))
        with carried(self._given, rows_BNW):
            # the package reads only the shape of its argument
            o_BNW: Tensor = self.attention(rows_BNW[0])
        o: Tensor = o_BNW.unflatten(2, (q.shape[1], -1)).transpose(1, 2)
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute softmax(q (Eᵀk)ᵀ / √D) Fᵀv with the package's parameters, which are [N, S]."""
        return attend_to(q, self.attention.proj_k.mT @ k, self.attention.proj_v.mT @ v)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax of the queries `at` over all projected keys."""
        return softmax_rows(q[at], self.attention.proj_k.mT @ k, self.attention.proj_v.mT @ v, default_scale(self.problem))
