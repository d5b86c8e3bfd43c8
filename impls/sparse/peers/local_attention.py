"""Window attention of the package local-attention.

B batch, H heads, N tokens, D query/key width, M value width, W buckets.
"""

from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Tier, Workload, default_scale, io_bytes, nominal_flops

from ...partial.rows import seen_by, softmax_rows
from ..patterns.neighbours import Window
from ..patterns.pattern import whole
from ..reference import masked_softmax_attention
from ..work import exact_flops


class LocalAttentionWindow(Attention):
    """`LocalAttention` of local-attention with exact windows and no rotary embedding, in buckets of `window` tokens.

    Beltagy et al. 2020, section 3.1, is the nearest paper; the package has none. A query sees its own bucket and the one
    before, if two-sided also the one after, and of them the keys at most `window` away: causal i - w … i, so w + 1 keys, those
    of sparse.window with window w + 1; else |i - j| <= w, those with 2w. Raises TypeError or ValueError on bad parameters.
    """

    paper = "arXiv:2004.05150"
    tier = Tier.LIBRARY
    requires = ("local-attention>=1.11",)
    grouped = False

    def __init__(self, problem: Problem, window: int = 256) -> None:
        from local_attention import LocalAttention

        super().__init__(problem)
        whole(window, "window")
        self.window = window
        self._attend: Any = LocalAttention(
            window, causal=problem.causal, autopad=True, exact_windowsize=True, use_rotary_pos_emb=False
        )

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the pairs of the window, and those of all buckets that are computed. Raises TypeError or ValueError.

        A bucket computes the keys of its own and the one before, if two-sided also of the one after. The backward keeps the
        scores, and has four products.
        """
        p, window = problem, _window(**params)  # type: ignore[arg-type]
        same, keys = Window(window + 1 if p.causal else 2 * window), (2 if p.causal else 3) * window
        tokens, passes = -(-p.N // window) * window, 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
        return Cost(
            nominal_flops=nominal_flops(problem, workload),
            exact_flops=exact_flops(problem, same, workload),
            executed_flops=passes * 2.0 * p.B * p.H * tokens * keys * (p.D + p.M),
            traffic_bytes=io_bytes(problem, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], differentiable."""
        N, mask = q.shape[2], None
        if not self.problem.causal and N % self.window:
            # the package pads the last bucket with keys of zeros, which only a mask hides from the queries before
            mask = torch.ones(q.shape[0], N, dtype=torch.bool, device=q.device)
        o: Tensor = self._attend(q, k, v, mask=mask)
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute softmax over the keys at most `window` away, if causal over those not later."""
        i = torch.arange(q.shape[2], device=q.device)
        apart = i[:, None] - i
        seen = apart.abs() <= self.window
        return masked_softmax_attention(q, k, v, seen & (apart >= 0) if self.problem.causal else seen)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the keys at most `window` away for the queries `at`."""
        near = (at.unsqueeze(1) - torch.arange(len(k), device=at.device)).abs() <= self.window
        return softmax_rows(q[at], k, v, default_scale(self.problem), near & seen_by(at, len(k), causal=self.problem.causal))


def _window(window: int = 256) -> int:
    """Check the one parameter, for costs without the package. Raises ValueError on a bad value."""
    whole(window, "window")
    return window
