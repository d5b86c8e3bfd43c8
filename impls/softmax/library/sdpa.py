"""Softmax attention by torch's own fused kernels.

B batch, H heads, K heads of k and v, N tokens, S keys, D query/key width, M value width.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cost, Layout, Problem, Scalar, Tier, Workload

from ...partial.backend import backend_that_ran, handed_over
from ..cached import CachedSoftmax
from ..masking import visible
from ..work import FLASH_BACKWARD, cost, exact_flops, fused_flops, refuse_parameters, square_flops


class SdpaSoftmax(CachedSoftmax):
    """`F.scaled_dot_product_attention`, with the backend that torch chooses for the problem.

    Where fused, the algorithm of Dao et al. 2022, in O(N²) time and O(N) memory. `observe` tells which backend ran, once it has
    closed. torch takes a causal flag or a mask: with a key mask, a causal call passes both as one mask, [B, 1, N, N], and
    nothing is skipped.
    """

    paper = "arXiv:2205.14135"
    tier = Tier.LIBRARY
    packs = True
    layout = Layout.BNHD  # the order that the fused kernels read, write and return gradients in

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes of the cheapest backend, so that no honest time is below the floor.

        A fused backward computes the scores again: five products for the forward's two (Dao et al. 2022, appendix B). Raises
        TypeError on any parameter.
        """
        refuse_parameters(params)
        if cls.keeps_scores(problem):
            return cost(problem, workload, executed=cls._flops_with_scores(problem, workload))
        executed = fused_flops(problem, workload)
        if problem.causal and problem.padding:
            executed = square_flops(problem, workload, backward_products=FLASH_BACKWARD)
        return cost(problem, workload, executed=executed)

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:
        """Say whether no fused kernel of a CPU fits, which is where M ≠ D."""
        return problem.M != problem.D

    @classmethod
    def _flops_with_scores(cls, problem: Problem, workload: Workload) -> float:
        """Return the exact work: other devices may have a fused kernel for M ≠ D that skips what a causal call hides."""
        return exact_flops(problem, workload)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend in one call."""
        N, S, grouped = q.shape[2], k.shape[2], q.shape[1] != k.shape[1]
        if key_mask is None and (N == S or not causal):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=self.scale, enable_gqa=grouped)
        mask = handed_over(visible(key_mask, N, S, causal=causal, device=q.device), q)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale, enable_gqa=grouped)

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record which kernel ran inside."""
        with backend_that_ran() as facts:
            yield facts
