"""Attention over pooled keys and values.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Attention, Causality, Cost, Layout, Problem, Scalar, Workload, default_scale

from ..partial.fused import attend
from ..partial.rows import softmax_rows
from .blocks import block_count, means, visible_blocks, visible_means
from .limits import refuse_bad_factor
from .reference import averages, averaging, softmax_attention
from .work import fused_cost


class KeyValuePooling(Attention):
    """Softmax over the means of `factor` neighbouring keys and values: N² / factor scores.

    Liu et al. 2018, section 4.2.3, memory-compressed attention, with a mean in place of the paper's strided convolution. Takes
    any kv_heads that divides H; keys that a key_mask hides are in no mean. Not causal. Raises ValueError on a bad factor.
    """

    paper = "arXiv:1801.10198"
    causality = Causality.NONE
    layout = Layout.BNHD  # the order that the fused kernels read, write and return gradients in
    masks = True
    because = "a mean over a block shows each of its tokens the later ones"

    def __init__(self, problem: Problem, factor: int = 4) -> None:
        super().__init__(problem)
        refuse_bad_factor(factor)
        self.factor = factor

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes for all queries and S keys. Raises TypeError or ValueError on bad parameters."""
        return _cost(problem, workload, **params)  # type: ignore[arg-type]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and bool [B, N] or None -> [B, H, N, M], differentiable once."""
        if key_mask is None:
            return attend(q, means(k, self.factor), means(v, self.factor))
        k, v = (visible_means(x, key_mask, self.factor) for x in (k, v))
        return attend(q, k, v, visible_blocks(key_mask, self.factor))

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute softmax(q (P k)ᵀ / √D) P v with P the averaging; a query that sees no key gets 0."""
        mean = averaging(k.shape[2], self.factor, k, key_mask)
        seen = None if key_mask is None else (mean > 0).any(-1).unsqueeze(2)
        return softmax_attention(q, mean @ k, mean @ v, seen)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax of the queries `at` over the means of blocks with a visible key."""
        keys, counts = averages(k, self.factor, key_mask)
        values, _ = averages(v, self.factor, key_mask)
        return softmax_rows(q[at], keys, values, default_scale(self.problem), (counts > 0).mT)


def _cost(p: Problem, workload: Workload, factor: int = 4) -> Cost:
    refuse_bad_factor(factor)
    seen = float(sum(block_count(length, factor) for length in p.lengths))
    return fused_cost(p, workload, p.N, block_count(p.N, factor), seen)
