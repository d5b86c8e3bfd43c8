"""Transformer-VQ in plain torch: blocks, tables, and the softmax over both from its parts.

B batch, H heads, N tokens, L tokens of a block, D query/key width, M value width, S codes.
"""

from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

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
        return cost_by_blocks(problem, cls.on_paper(problem, params).options, workload)

    def _attend(self, q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
        B, H, N, _ = q.shape
        options, blocks = self.options, Blocks.of(N, self.options.block, causal=self.problem.causal)
        call, positions = Call(blocks, H, options.reduction, options.gradient_through_table), None
        if self.position is not None:
            positions = Positions(self.position.to_position(q).flatten(0, 1), self.position.rows(blocks.L))
            q = self.position.to_content(q)
        q, k_hat, v, codes = (x.flatten(0, 1) for x in (q, k_hat, v, codes))
        out = block_attention(call, Tensors(q, k_hat, v, codes, codebook, positions))
        o_BHNM: Tensor = out.unflatten(0, (B, H))
        return o_BHNM
