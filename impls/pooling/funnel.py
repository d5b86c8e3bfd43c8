"""Attention of pooled queries.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Causality, Cost, Layout, Problem, Scalar, Workload, default_scale

from ..partial.fused import attend
from ..partial.rows import softmax_rows
from .blocks import block_count, means, spread
from .limits import refuse_bad_factor
from .reference import averages, averaging, softmax_attention
from .work import fused_cost


class FunnelPooling(Attention):
    """The mean query of `factor` neighbours attends to all keys, and each neighbour gets its output: N² / factor scores.

    Dai et al. 2020, section 2.2, pool-query-only attention and up-sampling by repetition, in one call. The mean of queries is
    the query of the mean, since projections are linear. Takes any kv_heads that divides H. Not causal. Raises ValueError on a
    bad factor.
    """

    paper = "arXiv:2006.03236"
    causality = Causality.NONE
    layout = Layout.BNHD  # the order that the fused kernels read, write and return gradients in
    because = "a mean over a block shows each of its tokens the later ones"

    def __init__(self, problem: Problem, factor: int = 2) -> None:
        super().__init__(problem)
        refuse_bad_factor(factor)
        self.factor = factor

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes for S queries and all keys. Raises TypeError or ValueError on bad parameters."""
        return _cost(problem, workload, **params)  # type: ignore[arg-type]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        return spread(attend(means(q, self.factor), k, v), self.factor, q.shape[2])

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute row ⌊i / factor⌋ of softmax(P q kᵀ / √D) v, with P the averaging."""
        N = q.shape[2]
        o = softmax_attention(averaging(N, self.factor, q) @ q, k, v)
        return o[:, :, torch.arange(N, device=q.device) // self.factor]

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax of the mean queries of the blocks of tokens `at` over all keys."""
        means, _ = averages(q, self.factor)
        return softmax_rows(means[at // self.factor], k, v, default_scale(self.problem))


def _cost(p: Problem, workload: Workload, factor: int = 2) -> Cost:
    refuse_bad_factor(factor)
    return fused_cost(p, workload, block_count(p.N, factor), p.N)
