"""Attention among the tokens that get the most attention.

B batch, H heads, K heads of k and v, N tokens, l tokens kept, n rows, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from attnbench.api import Attention, Causality, Cost, Problem, Scalar, Workload, default_scale

from ..partial.fused import attend
from ..partial.rows import softmax_rows
from .elimination import kept_count, most_significant, significance
from .limits import refuse_bad_share
from .work import fused_cost


class PowerBert(Attention):
    """The `keep` N tokens that get the most attention attend to each other, and all others get 0: N² scores to choose them.

    Goyal et al. 2020, section 3, word-vector elimination: the scores of one encoder and the attention of the next, in one call.
    All heads keep the same tokens; no gradient flows through their choice. Takes any kv_heads that divides H. Not causal.
    Raises ValueError on a bad share.
    """

    paper = "arXiv:2001.08950"
    causality = Causality.NONE
    independent = False  # all heads of a sample choose together
    because = "a token is kept for the attention that it gets from later ones"

    def __init__(self, problem: Problem, keep: float = 0.5) -> None:
        super().__init__(problem)
        refuse_bad_share(keep)
        self.kept, self.scale = kept_count(problem.N, keep), default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all scores, and attention among l tokens. Raises TypeError or ValueError on bad parameters."""
        return _cost(problem, workload, **params)  # type: ignore[arg-type]

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the tokens that are kept: int64 [B, 1, l], in rising order."""
        q, k, *_ = inputs
        return most_significant(significance(q, k, self.scale), self.kept)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], choices as from `choose`."""
        kept = (self.choose(q, k) if choices is None else choices).unsqueeze(-1)
        o = attend(*(x.gather(2, kept.expand(-1, x.shape[1], -1, x.shape[3])) for x in (q, k, v)))
        return o.new_zeros(*q.shape[:3], v.shape[3]).scatter_(2, kept.expand_as(o), o)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over the kept keys by a dense mask, and 0 for the queries of all other tokens."""
        chosen = self.choose(q, k) if choices is None else choices
        kept = torch.zeros(q.shape[0], 1, q.shape[2], dtype=torch.bool, device=q.device).scatter_(2, chosen, value=True)
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return (scores.masked_fill(~kept.unsqueeze(2), -math.inf).softmax(-1) @ v) * kept.unsqueeze(3)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the kept keys, int64 [l], for those queries `at` that are kept too, and 0 for the others."""
        assert choices is not None
        return softmax_rows(q[at], k[choices], v[choices], self.scale) * torch.isin(at, choices).unsqueeze(1)


def _cost(p: Problem, workload: Workload, keep: float = 0.5) -> Cost:
    refuse_bad_share(keep)
    kept = kept_count(p.N, keep)
    attended, scores = fused_cost(p, workload, kept, kept), 2.0 * p.B * p.H * p.N * p.N * p.D
    # the choice has no gradient
    more = {name: getattr(attended, name) + scores for name in ("exact_flops", "executed_flops")}
    return attended.model_copy(update=more)
