"""Transformer-VQ in plain torch: blocks, tables, and the softmax over both from its parts.

B batch, H heads of q, K heads of k and v, N tokens, L tokens of a block, D query/key width, M value width, S codes.
"""

from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

from ...partial.on_paper import on_paper
from ...recurrence.heads import by_state
from ..blocks import Blocks
from ..family import VQFamily
from ..work import cost_by_blocks
from .block_attention import Call, Tensors, block_attention
from .seen import Positions


class BlockwiseVQ(VQFamily):
    """Softmax attention over quantised keys in O(N (S + 2L) (D + M)): exactly the dense one, by blocks.

    Lingle 2023, theorems 3.4 and 3.7. Each block's queries see their own block, the one before, and a table: for each code the
    mean value of older tokens, weighted by their count. On a CPU the parts are torch's fused kernel, joined by their
    logsumexps; the backward computes tables and scores again.
    """

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        return cost_by_blocks(problem, on_paper(cls, problem, params).options, workload)

    def _attend(self, q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
        (B, kv_heads), N = k_hat.shape[:2], q.shape[2]
        options, blocks = self.options, Blocks.of(N, self.options.block, causal=self.problem.causal)
        call, positions = Call(blocks, kv_heads, options.reduction, options.gradient_through_table), None
        if self.position is not None:
            asks = by_state(self.position.to_position(q), kv_heads)
            positions = Positions(asks, self.position.rows(blocks.L).to(asks.dtype).unflatten(0, (kv_heads, -1)))
            q = self.position.to_content(q)
        k_hat, v, codes = (x.flatten(0, 1) for x in (k_hat, v, codes))
        out = block_attention(call, Tensors(by_state(q, kv_heads), k_hat, v, codes, codebook, positions))
        o_BHNM: Tensor = out.unflatten(0, (B, kv_heads)).flatten(1, 2)
        return o_BHNM
