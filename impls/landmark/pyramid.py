"""Attention over keys and values that are pooled by a pyramid.

B batch, H heads, K heads of k and v, N tokens, S anchors, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import (
    Attention,
    Causality,
    Cost,
    Layout,
    Problem,
    Scalar,
    Workload,
    default_scale,
    io_bytes,
    nominal_flops,
)

from ..partial.fused import attend
from ..partial.rows import softmax_rows
from .options import anchors_of
from .pooling import AdaptivePooling, factored_size
from .reference import pooling_matrix, pyramid_attention

_BINS = "1,9,36,64"


class Pyramid(Attention):
    """softmax(q k̂ᵀ / √D) v̂ over S anchors, which are means of k and of v over ever finer bins of tokens: O(N S).

    Zhu et al. 2019, section 3.2, the asymmetric non-local block, for sequences: `bins` lists the bins of each level, where the
    paper pools an image to 1², 3², 6² and 8². Bins are cut as adaptive pooling cuts them, so they may share a token, and where
    there are more bins than tokens a token is in several. Scaled by 1/√D like all methods here. Takes any kv_heads that divides
    H. Raises ValueError on bad bins.
    """

    paper = "arXiv:1908.07678"
    causality = Causality.NONE
    layout = Layout.BNHD  # makes the heads of a token one row of a product, and is what fused attention reads
    because = "an anchor is a mean over tokens before and after"

    def __init__(self, problem: Problem, bins: str = _BINS) -> None:
        super().__init__(problem)
        self.levels = anchors_of(bins)
        self.pool = AdaptivePooling(problem.N, self.levels).to(getattr(torch, problem.dtype))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes; pooling needs sums only, and executes products of tiles with the bins that each meets.

        Attention is fused: its backward has five products for the forward's two. Raises TypeError or ValueError on bad
        parameters.
        """
        p, levels, trains = problem, _levels(**params), workload is Workload.FORWARD_BACKWARD  # type: ignore[arg-type]
        S, (tiles, met, size) = sum(levels), factored_size(p.N, levels)
        pairs = 2.0 * p.B * p.H * p.N * S
        pooling = 2.0 * p.B * p.kv_heads * (p.D + p.M) * tiles * met * (size + S)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=(3.0 if trains else 1.0) * pairs * (p.D + p.M),
            executed_flops=(2.0 if trains else 1.0) * pooling + (3.5 if trains else 1.0) * pairs * 2 * max(p.D, p.M),
            traffic_bytes=io_bytes(p, workload),
        )

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:  # noqa: ARG003 - whatever the length
        """Count the bins of the finest level: with fewer tokens, some bins share theirs."""
        return max(_levels(**params))  # type: ignore[arg-type]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable."""
        keys, values = (self._pooled(x) for x in (k, v))
        return attend(q, keys, values)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the same by a dense matrix [S, N]."""
        return pyramid_attention(q, k, v, self.levels)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax of the queries `at` over all anchors, by a dense matrix [S, N]."""
        means = pooling_matrix(len(k), self.levels, k)
        return softmax_rows(q[at], means @ k, means @ v, default_scale(self.problem))

    def _pooled(self, x: Tensor) -> Tensor:
        """Pool [B, K, N, C] -> [B, K, S, C]."""
        pooled_BSC: Tensor = self.pool(x.transpose(1, 2).flatten(2))
        pooled: Tensor = pooled_BSC.unflatten(2, (x.shape[1], -1)).transpose(1, 2)
        return pooled


def _levels(bins: str = _BINS) -> tuple[int, ...]:
    """Parse the one parameter. Raises TypeError on other parameters, ValueError on a bad value."""
    return anchors_of(bins)
