"""Softmax attention with all scores in memory: the baseline that every paper compares with, as fast as plain torch allows.

B batch, H heads, K heads of k and v, R = H / K heads of q for each of them, N tokens, S keys, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

from ...partial.heads import served
from .. import masking
from ..cached import CachedSoftmax
from ..work import cost, refuse_parameters, square_flops


class NaiveSoftmax(CachedSoftmax):
    """Softmax attention with all N × N scores in memory, in O(N²) time and memory.

    Vaswani et al. 2017, eq. 1. Causal or not, any kv_heads that divides H, any key mask. The causal form computes the full
    square and hides half of it, since skipping it needs a special kernel.
    """

    paper = "arXiv:1706.03762"
    packs = True

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost with the full square executed, causal or not. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=square_flops(problem, workload, backward_products=4))

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:  # noqa: ARG003 - whatever the problem
        """Return True."""
        return True

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend by two products and a softmax."""
        B, H, N, D = q.shape
        R = served(q, k)
        if key_mask is not None:
            # what is added to their scores hides keys only from 0: a score may be larger than any finite number is low
            k = k.masked_fill(~key_mask[:, None, :, None], 0)
        # heads of q that share a head of k become more rows of one product: a view, nothing is repeated
        scores = self._scores(q.reshape(-1, R * N, D), k.flatten(0, 1), N, causal, key_mask)
        # without autograd the scores are not needed again, so the softmax may overwrite them, row by row
        probs = scores.softmax(-1) if scores.requires_grad else torch.softmax(scores, -1, out=scores)
        del scores
        o = torch.bmm(probs, v.flatten(0, 1))
        if key_mask is not None:
            blind_BN = masking.sees_nothing(key_mask, causal=causal)
            o.masked_fill_(blind_BN[:, None, None, :].expand(B, H // R, R, N).reshape(-1, R * N, 1), 0)
        return o.view(B, H, N, v.shape[-1])

    def _scores(self, q: Tensor, k: Tensor, N: int, causal: bool, key_mask: Tensor | None) -> Tensor:
        """Compute scaled scores, very low where hidden: [BK, RN, D], [BK, S, D] -> [BK, RN, S].

        Masks are added, one of them within the product, because filling would copy the scores again in the backward.
        """
        low = None if key_mask is None else masking.unseen(key_mask, q.dtype).repeat_interleave(len(k) // len(key_mask), dim=0)
        if not causal:
            addend = q.new_empty(1, 1, 1) if low is None else low
            return torch.baddbmm(addend, q, k.mT, beta=0 if low is None else 1, alpha=self.scale)
        later_NS = masking.later(q, N, k.shape[1])
        later = later_NS.expand(q.shape[1] // N, *later_NS.shape).reshape(-1, k.shape[1])  # a view where R = 1
        scores = torch.baddbmm(later, q, k.mT, alpha=self.scale)
        return scores if low is None else scores.add_(low)
