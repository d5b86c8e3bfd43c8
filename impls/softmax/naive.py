"""Softmax attention with all scores in memory: the baseline that every paper compares with, at its honest best.

B batch, H heads, K heads of k and v, R = H / K heads of q for each of them, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Workload, default_scale, dense_flops, io_bytes

from .reference import softmax_attention


class NaiveSoftmax(Attention):
    """Softmax attention that materialises the N × N scores, in O(N²) time and memory.

    Paper: Vaswani et al. 2017, eq. 1. Causal or not, any kv_heads that divides H. The causal form computes
    the full square and hides half of it: that is what this algorithm costs without a kernel of its own.
    """

    paper = "arXiv:1706.03762"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.causal, self.scale = problem.causal, default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Full square executed, causal or not. Raises TypeError on any parameter."""
        cls(problem, **params)
        p, trains = problem, workload is Workload.FORWARD_BACKWARD
        passes = 3.0 if trains else 1.0  # the backward of a product is two products
        return Cost(
            nominal_flops=passes * dense_flops(p),
            exact_flops=passes * dense_flops(p),
            executed_flops=passes * 2.0 * p.B * p.H * p.N * p.N * (p.D + p.M),
            traffic_bytes=io_bytes(p, workload),
            peak_bytes=_peak_elements(p, trains) * p.dtype.bytes,
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable."""
        B, H, N, D = q.shape
        # heads of q that share a head of k become more rows of one product: a view, nothing is repeated
        scores = self._scores(q.reshape(B * k.shape[1], -1, D), k.flatten(0, 1))
        # the scores are needed no more, so without autograd the softmax may overwrite them, row by row
        probs = scores.softmax(-1) if scores.requires_grad else torch.softmax(scores, -1, out=scores)
        del scores
        return torch.bmm(probs, v.flatten(0, 1)).view(B, H, N, v.shape[-1])

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Scaled scores, -inf where hidden: [BK, RN, D], [BK, N, D] -> [BK, RN, N].

        The mask enters as the addend of the product: filling the scores instead would copy them again in the backward.
        """
        if not self.causal:
            return torch.baddbmm(q.new_empty(1, 1, 1), q, k.mT, beta=0, alpha=self.scale)
        N = k.shape[1]
        hidden_NN = q.new_full((N, N), -math.inf).triu_(1)
        hidden = hidden_NN.expand(q.shape[1] // N, N, N).reshape(-1, N)  # a view where R = 1
        return torch.baddbmm(hidden, q, k.mT, alpha=self.scale)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Vaswani et al. 2017, eq. 1, literally."""
        return softmax_attention(q, k, v, causal=self.causal)


def _peak_elements(p: Problem, trains: bool) -> float:
    """Forward: the scores, beside them the mask or the output. Backward: P, dP and dS at once, beside o and dv."""
    square, output = p.B * p.H * p.N * p.N, p.B * p.H * p.N * p.M
    R = p.H // p.kv_heads
    mask = p.N * p.N * (R if R == 1 else R + 1) if p.causal else 0
    if trains:
        return 3.0 * square + output + p.B * p.kv_heads * p.N * p.M
    return square + max(mask, output)
