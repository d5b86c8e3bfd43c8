"""Attention to the keys with the largest scores.

B or b batch, H heads, K heads of k and v, R = H / K, N or n tokens, S keys, k keys kept, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, State, Workload, default_scale

from ...partial.cache import KvCache
from ...partial.rows import softmax_rows
from ..patterns.pattern import whole
from ..reference import masked_softmax_attention
from .kept_keys import attend_kept
from .selection import largest
from .topk_cost import cost


class TopKAttention(Attention):
    """Softmax over the `k` largest scores of each query (Zhao et al. 2019, eq. 3-5): O(N²) scores, O(N k) values and memory.

    Exactly min(k, seen) keys are kept, among equal scores any, where the paper keeps all that reach the k-th. Gradients flow
    through the kept keys, not through their choice, which is made from blocks of scores. Raises ValueError on a bad k.
    """

    paper = "arXiv:1912.11637"
    decodes = appends = True
    rows_choose = True

    def __init__(self, problem: Problem, k: int = 8) -> None:
        super().__init__(problem)
        whole(k, "k")
        self.k, self.causal, self.scale = k, problem.causal, default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all visible scores, the kept ones twice, and their values. Raises TypeError or ValueError."""
        return cost(problem, workload, **params)  # type: ignore[arg-type]

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the keys of each query: int64 [B, H, N, min(k, N)], -1 where a query sees fewer."""
        q, key, _ = inputs
        return largest(self._folded(q, key), key.flatten(0, 1), self.k, causal=self.causal).view(*q.shape[:3], -1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once; choices as from `choose`."""
        return self._attend(q, k, v, self.choose(q, k, v) if choices is None else choices)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over a dense mask of the choices, or of newly made ones."""
        kept = self.choose(q, k, v) if choices is None else choices
        # an additional column takes the writes for absent keys
        mask = torch.zeros(*q.shape[:3], k.shape[2] + 1, dtype=torch.bool, device=q.device)
        mask.scatter_(3, torch.where(kept < 0, k.shape[2], kept), value=True)
        return masked_softmax_attention(q, k, v, mask[..., :-1])

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the chosen keys [N, k] of the queries `at`, or over those with their largest scores."""
        scores = q[at] @ k.mT
        if choices is None:
            hidden = torch.arange(len(k), device=at.device) > at.unsqueeze(1) if self.causal else torch.zeros_like(scores) > 0
            kept = scores.detach().masked_fill(hidden, -math.inf).topk(min(self.k, len(k)), dim=-1)
            chosen = torch.where(kept.values > -math.inf, kept.indices, len(k))
        else:
            chosen = torch.where(choices[at] < 0, len(k), choices[at])
        # an additional column takes the writes for absent keys
        seen = scores.new_zeros(len(at), len(k) + 1, dtype=torch.bool).scatter_(1, chosen, value=True)
        return softmax_rows(q[at], k, v, self.scale, seen[:, :-1])

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Attend to the prompt and keep all its keys and values. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        return o, KvCache.of(k, v, capacity)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Append one token, and attend to the largest of all scores. Raises ValueError beyond the capacity."""
        cache: KvCache = state.then(k, v)
        scores = (self._folded(q, k).squeeze(2).unflatten(0, k.shape[:2]) @ cache.keys.mT).mul_(self.scale)
        if choices is None:
            top = scores.topk(min(self.k, cache.length), dim=-1)
            kept, weights = top.indices, top.values.softmax(-1)
        else:
            kept = choices.view(*scores.shape[:3], -1)
            weights = scores.gather(-1, kept.clamp(min=0)).masked_fill_(kept < 0, -math.inf).softmax(-1)
        return _weighted(weights, cache.values, kept.clamp(min=0)).view(*q.shape[:3], -1), cache

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
        R, folded = q.shape[1] // k.shape[1], self._folded(q, k)
        o = attend_kept(folded, k.flatten(0, 1), v.flatten(0, 1), kept.view(-1, R, *kept.shape[2:]), self.scale)
        return o.view(*q.shape[:3], v.shape[3])

    def _folded(self, q: Tensor, k: Tensor) -> Tensor:
        """Fold neighbouring heads that share one of k: [b, H, n, D] -> [b K, R, n, D]."""
        return q.reshape(-1, q.shape[1] // k.shape[1], *q.shape[2:])


def _weighted(weights: Tensor, values: Tensor, kept: Tensor) -> Tensor:
    """Sum up chosen values by weight: [b, K, R, k], [b, K, n, M], indices like the weights -> [b, K, R, M]."""
    rows = values.gather(2, kept.flatten(2).unsqueeze(-1).expand(-1, -1, -1, values.shape[-1]))
    o: Tensor = weights.unsqueeze(-2) @ rows.unflatten(2, weights.shape[2:])
    return o.squeeze(-2)
