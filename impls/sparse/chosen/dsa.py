"""DeepSeek Sparse Attention: a small scorer chooses the keys of each token, the same for all heads.

B or b batch, H heads, K heads of k and v, I = H / 2 index heads, E = D / 2 their width, N or n tokens, k keys kept, D
query/key width, M value width.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload, io_bytes, nominal_flops

from ...partial.cache import KvCache, written
from ...partial.index import index_heads, largest, largest_from, scored, scores_of, spans
from ..patterns.pattern import whole
from .listed import ListedTokens


@dataclass(frozen=True)
class DsaCache:
    """Keys and values, and the index keys [b, 1, capacity, E]."""

    cache: KvCache
    index: Tensor

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.cache.length


class DeepSeekSparse(ListedTokens):
    """Softmax over the `k` tokens s ≤ t with the largest Σ_i w_ti ReLU(q'_ti · k'_s): O(N²) index scores, O(N k) attention.

    DeepSeek-AI 2025, *DeepSeek-V3.2*, section 2.1, eq. 1-2. Inputs are q, k, v, and of the scorer q' [B, I, N, E], k' [B, 1,
    N, E], and w [B, I, N]. Exactly min(k, t) tokens are kept, and all heads keep the same. The choice has no gradient: as in
    the paper the scorer is trained by a loss of its own, `penalty`. `k` is 256, and 2048 in the paper's model. Raises
    ValueError on a bad k.
    """

    paper = "arXiv:2512.02556"
    because = "the scorer sees the tokens so far"

    def __init__(self, problem: Problem, k: int = 256) -> None:
        super().__init__(problem)
        whole(k, "k")
        self.k = k

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all index scores, and attention to the kept tokens. Raises TypeError or ValueError on bad parameters."""
        p, (heads, width) = problem, index_heads(problem)
        k = min(cls(p, **params).k, p.N)  # type: ignore[arg-type]
        if workload is Workload.DECODE:
            seen, kept, tokens = float(p.N), float(k), 1
        else:
            seen, kept, tokens = p.N * (p.N + 1) / 2, p.N * k - k * (k - 1) / 2, p.N
        trains = workload is Workload.FORWARD_BACKWARD
        # products of a score and its weight, for each index head
        scoring, attending = 2.0 * p.B * heads * (width + 1), 2.0 * p.B * p.H * (p.D + p.M) * (3 if trains else 1)
        exact = scoring * seen + attending * kept
        # absent places of a list are computed too, with a weight of 0
        executed = exact if workload.decodes else scoring * scored(p.N, heads, 1) + attending * p.N * k
        scorer = tokens * (heads * (width + 1) + width) * p.dtype.bytes * float(p.B)
        moved = p.B * p.dtype.bytes * (seen * width + p.kv_heads * kept * (p.D + p.M)) if workload.decodes else 0.0
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact,
            executed_flops=executed,
            traffic_bytes=io_bytes(p, workload) + scorer + moved,
        )

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and those of the scorer."""
        heads, width = index_heads(problem)
        scorer = ("index_q", heads, width), ("index_k", 1, width), ("index_weight", heads, 1)
        return *super().projections(problem), *(Projection(*each) for each in scorer)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return all as it is, w as a number for each token and index head."""
        *others, w = super().admit(problem, *raw)
        return *others, w.squeeze(-1)

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the tokens that each one attends to: int64 [B, 1, N, min(k, N)], -1 where it sees fewer."""
        index_q, index_k, w = inputs[3:]
        return largest(index_q, index_k.squeeze(1), w, 1, self.k).unsqueeze(1)

    def penalty(self, *inputs: Tensor, choices: Tensor | None) -> Tensor:
        """Return what the scorer is trained on, section 2.1.1: how far it is from the weights of the tokens that it chose.

        This is the mean over tokens, where the paper has the sum, of KL(mean of all heads' weights, softmax of the index
        scores), with a gradient to the scorer.
        """
        q, k, _, index_q, index_k, w = inputs
        assert choices is not None
        k, total = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1), w.new_zeros((), dtype=torch.float32)
        for start, stop in spans(q.shape[2], q.shape[1], 1):
            some = slice(start, stop)
            kept = choices[:, 0, some]
            absent, at = kept < 0, kept.clamp(min=0)
            with torch.no_grad():
                scores = (q[:, :, some] @ k.mT * self.scale).float().take_along_dim(at.unsqueeze(1), -1)
                wanted = scores.masked_fill(absent.unsqueeze(1), -math.inf).softmax(-1).mean(1)
            index = scores_of(index_q[:, :, some], index_k.squeeze(1), w[:, :, some]).float().take_along_dim(at, -1)
            log_found = index.masked_fill(absent, -math.inf).log_softmax(-1).masked_fill(absent, 0)
            total = total + (torch.xlogy(wanted, wanted) - wanted * log_found).sum()
        return total / (q.shape[0] * q.shape[2])

    def learn(self, *inputs: Tensor, choices: Tensor | None) -> None:
        """Do nothing: all that is learned has a gradient."""

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its keys, values and index keys. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, *scorer, choices=choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        index_k = scorer[1]
        return o.detach(), DsaCache(
            KvCache.of(k, v, capacity), written(index_k.new_empty(len(q), 1, capacity, index_k.shape[3]), index_k, 0)
        )

    def step(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, state: State, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Append tokens, and attend from each to those with the largest index scores. Raises ValueError beyond the capacity."""
        index_q, index_k, w = (x.detach() for x in scorer)
        cache, index = state.cache.then(k, v), written(state.index, index_k, state.length)
        if choices is None:
            choices = largest_from(state.length, index_q, index[:, 0, : cache.length], w, 1, self.k).unsqueeze(1)
        return self.from_last(q, cache, choices), DsaCache(cache, index)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all tokens, of which each attends alike to those up to it. Raises ValueError beyond the capacity."""
        return self.step(*inputs, state=state)
