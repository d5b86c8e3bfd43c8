"""DeepSeek Sparse Attention: a small scorer chooses the keys of each token, the same for all heads.

B or b batch, H heads, K heads of k and v, I = H / 2 index heads, E = D / 2 their width, N or n tokens, k keys kept, D
query/key width, M value width.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale, io_bytes, nominal_flops

from ...partial.cache import KvCache, written
from ...partial.rows import softmax_rows
from ...partial.unlearned import unlearned
from ..patterns.pattern import whole
from ..reference import masked_softmax_attention
from .kept_keys import attend_kept
from .selection import ABSENT, SCORES

ROWS = 256
"""Queries that are scored together at most, against all keys up to the last of them."""


@dataclass(frozen=True)
class DsaCache:
    """Keys and values, and the index keys [b, 1, capacity, E]."""

    cache: KvCache
    index: Tensor

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.cache.length


class DeepSeekSparse(Attention):
    """Softmax over the `k` tokens s ≤ t with the largest Σ_i w_ti ReLU(q'_ti · k'_s): O(N²) index scores, O(N k) attention.

    DeepSeek-AI 2025, *DeepSeek-V3.2*, section 2.1, eq. 1-2. Inputs are q, k, v, and of the scorer q' [B, I, N, E], k' [B, 1,
    N, E], and w [B, I, N]. Exactly min(k, t) tokens are kept, and all heads keep the same. The choice has no gradient: as in
    the paper the scorer is trained by a loss of its own, `penalty`. `k` is 256, and 2048 in the paper's model. Raises
    ValueError on a bad k.
    """

    paper = "arXiv:2512.02556"
    decodes = appends = True
    causal_only = True
    because = "the scorer sees the tokens so far"

    def __init__(self, problem: Problem, k: int = 256) -> None:
        super().__init__(problem)
        whole(k, "k")
        self.k, self.scale = k, default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all index scores, and attention to the kept tokens. Raises TypeError or ValueError on bad parameters."""
        p, k = problem, min(cls(problem, **params).k, problem.N)  # type: ignore[arg-type]
        heads, width = index_heads(p)
        if workload is Workload.DECODE:
            seen, kept, tokens = float(p.N), float(k), 1
        else:
            seen, kept, tokens = p.N * (p.N + 1) / 2, p.N * k - k * (k - 1) / 2, p.N
        trains = workload is Workload.FORWARD_BACKWARD
        # products of a score and its weight, for each index head
        exact = p.B * (2.0 * heads * (width + 1) * seen + 2.0 * p.H * (p.D + p.M) * kept * (3 if trains else 1))
        executed = exact
        if not workload.decodes:
            pairs = sum(rows * stop for rows, stop in _blocks(p.N, heads))
            executed += 2.0 * p.B * heads * (width + 1) * (pairs - seen)
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
        """Choose the tokens that each one attends to: int64 [B, 1, N, k], -1 where it sees fewer."""
        index_q, index_k, w = inputs[3:]
        B, heads, N, _ = index_q.shape
        kept = torch.full((B, 1, N, self.k), ABSENT, dtype=torch.int64, device=w.device)
        for b in range(B):
            start = 0
            for rows, stop in _blocks(N, heads):
                scores = _scores(index_q[b, :, start:stop], index_k[b, :, :stop], w[b, :, start:stop])
                later = torch.ones(rows, rows, dtype=torch.bool, device=w.device).triu_(1)
                scores[:, start:].masked_fill_(later, -math.inf)
                top = scores.topk(min(self.k, stop), dim=-1)
                kept[b, 0, start:stop, : top.indices.shape[1]] = top.indices.masked_fill_(top.values == -math.inf, ABSENT)
                start = stop
        return kept

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and the scorer's -> [B, H, N, M], differentiable once."""
        kept = self.choose(q, k, v, *scorer) if choices is None else choices
        R = q.shape[1] // k.shape[1]
        folded, kept = q.reshape(-1, R, *q.shape[2:]), kept.expand(-1, q.shape[1], -1, -1).reshape(-1, R, *kept.shape[2:])
        o = attend_kept(folded, k.flatten(0, 1), v.flatten(0, 1), kept, self.scale).view(*q.shape[:3], v.shape[3])
        return unlearned(o, *scorer)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over a dense mask of the choices, or of newly made ones."""
        kept, N = self.choose(q, k, v, *scorer) if choices is None else choices, k.shape[2]
        # an additional column takes the writes for absent keys
        mask = torch.zeros(len(q), 1, N, N + 1, dtype=torch.bool, device=q.device)
        mask.scatter_(3, torch.where(kept < 0, N, kept), value=True)
        return unlearned(masked_softmax_attention(q, k, v, mask[..., :-1]), *scorer)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the chosen tokens [N, k] of the queries `at`."""
        assert choices is not None
        # an additional column takes the writes for absent keys
        seen = torch.zeros(len(at), len(k) + 1, dtype=torch.bool, device=q.device)
        seen.scatter_(1, torch.where(choices[at] < 0, len(k), choices[at]), value=True)
        return softmax_rows(q[at], k, v, self.scale, seen[:, :-1])

    def penalty(self, *inputs: Tensor, choices: Tensor | None) -> Tensor:
        """Return what the scorer is trained on, section 2.1.1: how far it is from the weights of the tokens that it chose.

        This is the mean over tokens, where the paper has the sum, of KL(mean of all heads' weights, softmax of the index
        scores), with a gradient to the scorer.
        """
        q, k, _, index_q, index_k, w = inputs
        assert choices is not None
        k, total, start = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1), w.new_zeros((), dtype=torch.float32), 0
        for _, stop in _blocks(q.shape[2], q.shape[1]):
            some = slice(start, stop)
            kept = choices[:, 0, some]
            absent, at = kept < 0, kept.clamp(min=0)
            with torch.no_grad():
                scores = (q[:, :, some] @ k.mT * self.scale).float().take_along_dim(at.unsqueeze(1), -1)
                wanted = scores.masked_fill(absent.unsqueeze(1), -math.inf).softmax(-1).mean(1)
            index = _scores(index_q[:, :, some], index_k, w[:, :, some]).float().take_along_dim(at, -1)
            log_found = index.masked_fill(absent, -math.inf).log_softmax(-1).masked_fill(absent, 0)
            total = total + (torch.xlogy(wanted, wanted) - wanted * log_found).sum()
            start = stop
        return total / (q.shape[0] * q.shape[2])

    def learn(self, *inputs: Tensor, choices: Tensor | None) -> None:
        """Do nothing: all that is learned has a gradient."""

    def exact(self, q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all keys: the scorer is left out."""
        return super().exact(q, k, v)

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its keys, values and index keys. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, *scorer, choices=choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        index_k = scorer[1]
        return o.detach(), DsaCache(KvCache.of(k, v, capacity), written(_room(index_k, capacity), index_k, 0))

    def step(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, state: State, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Append one token, and attend to those with the largest index scores. Raises ValueError beyond the capacity."""
        index_q, index_k, w = (x.detach() for x in scorer)
        cache, index = state.cache.then(k, v), written(state.index, index_k, state.length)
        if choices is None:
            scores = _scores(index_q, index[:, :, : cache.length], w)
            kept = scores.topk(min(self.k, cache.length), dim=-1).indices.unsqueeze(1)
        else:
            kept = choices
        absent = (kept < 0).view(len(q), 1, 1, -1)
        at = kept.clamp(min=0).view(len(q), 1, -1, 1)
        keys, values = (x.take_along_dim(at, 2) for x in (cache.keys, cache.values))
        heads = q.detach().view(len(q), k.shape[1], -1, q.shape[3])
        weights = (heads @ keys.mT * self.scale).masked_fill(absent, -math.inf).softmax(-1)
        return (weights @ values).view(*q.shape[:3], -1), DsaCache(cache, index)


def index_heads(p: Problem) -> tuple[int, int]:
    """Return the number of index heads, half of the attention's as in the paper's model, and their width, half as well."""
    return max(1, p.H // 2), max(1, p.D // 2)


def _room(x: Tensor, capacity: int) -> Tensor:
    return x.new_empty(*x.shape[:2], capacity, x.shape[3])


def _blocks(N: int, heads: int) -> Iterator[tuple[int, int]]:
    """Cut the queries into blocks of a limited number of scores: the rows of each, and the end of the last."""
    start = 0
    while start < N:
        # the last row of a block sees the most keys
        rows = max(1, min(ROWS, N - start, SCORES // (heads * (start + ROWS))))
        start += rows
        yield rows, start


def _scores(index_q: Tensor, index_k: Tensor, w: Tensor) -> Tensor:
    """Compute Σ_i w_ti ReLU(q'_ti · k'_s): [..., I, n, E], [..., 1, S, E], [..., I, n] -> [..., n, S], in float32 at least."""
    dots = (index_q @ index_k.mT).relu_()
    wide = torch.promote_types(dots.dtype, torch.float32)
    scores = (dots.to(wide) * w.to(wide).unsqueeze(-1)).sum(-3)
    # all that no index head answers to score 0: of them the later ones come first, whatever sorts them
    later = torch.arange(1, scores.shape[-1] + 1, device=w.device, dtype=wide) * 1e-30
    return torch.where(scores == 0, later, scores)
