"""Linear attention without a mask: two products through one D × M state.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Causality, Cost, Problem, Scalar, Workload

from ...partial.on_paper import on_paper
from ..family import LinearFamily
from ..work import Sizes, linear_cost
from .full_product import linear_attention_by_state


class FullLinear(LinearFamily):
    """Linear attention o_i = φ(q_i)ᵀ S / (φ(q_i)ᵀ z + eps) over all keys, in O(N D M).

    Katharopoulos et al. 2020, eq. 5-6; φ(x) = elu(x) + 1 is their eq. 7. No 1/√D. Raises ValueError where eps < 0.
    """

    causality = Causality.NONE
    decodes = False
    because = "every query sees every key; linear.chunked does the causal form"

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count sums of M columns and reads of W, which are M and a column of ones, and the products of φ.

        The backward adds dS and dφ(q) of M + 1 columns, dφ(k) and dv of M, and φ twice. Raises TypeError or ValueError on bad
        parameters.
        """
        s, M = Sizes(problem, on_paper(cls, problem, params)), problem.M
        forward, backward = s.method.phi.flops(problem.D)
        work = 2.0 * s.C * (s.keys * M + s.queries * s.wide) + (s.keys + s.queries) * forward
        if workload is Workload.FORWARD_BACKWARD:
            work += 4.0 * s.C * (s.queries * (M + 1) + s.keys * M) + (s.keys + s.queries) * (forward + backward)
        return linear_cost(s, workload, work)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        B, H, N, D = q.shape
        # heads of q that share a head of k become more queries of one product: a view, nothing is repeated
        o = linear_attention_by_state(
            q.reshape(B * k.shape[1], -1, D), k.flatten(0, 1), v.flatten(0, 1), self.terms(key_mask, k.shape[1])
        )
        return o.view(B, H, N, v.shape[-1])
