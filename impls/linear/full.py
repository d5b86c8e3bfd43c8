"""Linear attention without a mask: two products through one D × M state.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Causality, Cell, Cost, Problem, Scalar, Workload

from .family import LinearFamily
from .full_cost import cost_by_state
from .full_product import linear_attention_by_state


class FullLinear(LinearFamily):
    """Linear attention o_i = φ(q_i)ᵀ S / (φ(q_i)ᵀ z + eps) over all keys, in O(N D M).

    Katharopoulos et al. 2020, eq. 5-6; φ(x) = elu(x) + 1 is their eq. 7. No 1/√D. Raises ValueError where eps < 0.
    """

    causality = Causality.NONE
    decodes = False

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse causal cells and decoding."""
        if cell.workload.decodes:
            return "every query sees every key; linear.chunked and the other causal forms decode"
        return "every query sees every key; linear.chunked does the causal form" if cell.problem.causal else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes; the peak is that on a CPU. Raises TypeError or ValueError on bad parameters."""
        return cost_by_state(problem, cls.on_paper(problem, params), workload)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        B, H, N, D = q.shape
        # heads of q that share a head of k become more queries of one product: a view, nothing is repeated
        o = linear_attention_by_state(
            q.reshape(B * k.shape[1], -1, D), k.flatten(0, 1), v.flatten(0, 1), self.terms(key_mask, k.shape[1])
        )
        return o.view(B, H, N, v.shape[-1])
