"""Causal linear attention in plain torch, token by token: the recurrent network of the paper's title.

B batch, H heads, K heads of k and v, N tokens, D query/key width, C width of φ, M value width, W value width with its
column of ones.
"""

from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

from ...partial.heads import of_each_head
from ...partial.on_paper import on_paper
from ..family import LinearFamily
from ..work import Sizes, decoding_cost, linear_cost
from .recurrent_product import linear_attention_by_tokens


class RecurrentLinear(LinearFamily):
    """Causal linear attention over one state of C × M, in O(N C M) and constant memory beside the output.

    Katharopoulos et al. 2020, eq. 16-20, and eq. 13-15 for the gradient. Exact for every feature map. Slow here: three small
    torch calls for each token, four times as many in the backward, whose time is Python's overhead. It shows what a kernel has
    to do. The backward's sums are float64.
    """

    causal_only = True

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count two products of C × W per token, W being the value width with its column of ones, and those of φ.

        The backward adds the state again, dφ(q), the sums over queries, dφ(k) and dv. Raises TypeError or ValueError on bad
        parameters.
        """
        s = Sizes(problem, on_paper(cls, problem, params))
        if workload.decodes:
            return decoding_cost(s, workload)
        forward, backward = s.method.phi.flops(problem.D)
        work = 4.0 * s.C * s.wide + 2 * forward
        if workload is Workload.FORWARD_BACKWARD:
            work += 2.0 * s.C * (4 * s.wide + problem.M) + 2 * backward + 4 * forward
        return linear_cost(s, workload, s.queries * work)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N, differentiable once."""
        k, v = of_each_head(q, k, v)
        terms = self.terms(key_mask, q.shape[1])
        o: Tensor = linear_attention_by_tokens(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), terms)
        return o.view(v.shape)
