"""Causal linear attention as its equations are first typed: every state of every token, at once.

B batch, H heads, K heads of k and v, R = H / K, N tokens, D query/key width, C width of φ, M value width, G = 1 or C log
scales.
"""

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

from ...partial.on_paper import on_paper
from ..family import LinearFamily
from ..maps.exponential import Exponential, nothing
from ..maps.feature_map import FeatureMap
from ..work import Sizes, decoding_cost, exact_flops, linear_cost


class NaiveCumsumLinear(LinearFamily):
    """Causal linear attention by a cumulative sum of outer products, in O(N C M) time and memory, under plain autograd.

    Katharopoulos et al. 2020, eq. 9-12, literally. This is the trap that the paper warns of (section 3.3.1): all N states of C
    × M are in memory, and again in the backward. It is here for comparison, and not optimised. Maps with a log scale use that
    of the first key that is seen, and overflow where a later one exceeds it by 88 in float32.
    """

    causal_only = True

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes; outer products count as products. Raises TypeError or ValueError on bad parameters."""
        s = Sizes(problem, on_paper(cls, problem, params))
        if workload.decodes:
            return decoding_cost(s, workload)
        denominators = (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2.0 * s.queries * s.C
        return linear_cost(s, workload, exact_flops(s, workload) + denominators)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]."""
        kind = self.phi.sums(q.dtype)
        visible = None if key_mask is None else key_mask[:, None, :, None]
        if visible is not None:
            # φ of what a hidden key holds may be infinite, and stay so times 0
            k = k.masked_fill(~visible, 0)
        fq, fk = features(self.phi, q.to(kind), k.to(kind), visible)
        fk = fk if visible is None else fk * visible
        kv_BKNCM = torch.einsum("bknc,bknm->bkncm", fk, v.to(kind)).cumsum(2)
        z_BKNC = fk.cumsum(2)
        fq_BKRNC = fq.unflatten(1, (k.shape[1], -1))
        numerator = torch.einsum("bkrnc,bkncm->bkrnm", fq_BKRNC, kv_BKNCM)
        denominator = torch.einsum("bkrnc,bknc->bkrn", fq_BKRNC, z_BKNC)
        o: Tensor = (numerator / (denominator.unsqueeze(-1) + self.eps)).flatten(1, 2)
        return o.to(v.dtype)


def features(phi: FeatureMap, q: Tensor, k: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute φ(q) [B, H, N, C] and φ(k) [B, K, N, C], differentiable; queries absorb scales that rise over the tokens."""
    if not isinstance(phi, Exponential):
        return phi(q), phi(k)
    logs = phi.logs(k)
    start = logs[:, :, :1]
    if visible is not None:
        # a hidden key must not set the scale
        place = visible.int().argmax(2, keepdim=True).expand(-1, logs.shape[1], -1, logs.shape[3])
        start = logs.gather(2, place)
        logs = logs.masked_fill(~visible, nothing(k.dtype))
    first = phi.total(start).detach()
    scale = phi.running(logs) if phi.normalises else phi.running(logs).detach()
    # where no key is seen yet there is nothing to read; 0 is a scale that keeps gradients finite
    remains = (first - scale).masked_fill(scale == nothing(k.dtype), 0).clamp(max=80).exp()
    remains = remains.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return phi(q) * remains, (logs - first).exp()
