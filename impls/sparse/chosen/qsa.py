"""Attention to the tokens of chosen blocks, the same for all heads, and to those after the last whole block (Qwen4-Exp).

B or b batch, H heads, K heads of k and v, I = H / 2 index heads, E = D / 2 their width, N or n tokens, m tokens of a block, k
tokens of chosen blocks, D query/key width, M value width.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale, io_bytes, nominal_flops

from ...partial.cache import KvCache, written
from ...partial.rows import softmax_rows
from ...partial.softmax import sums
from ...partial.unlearned import unlearned
from ..patterns.pattern import whole
from ..reference import masked_softmax_attention
from .dsa import index_heads
from .kept_keys import attend_kept
from .selection import ABSENT, SCORES

_QUERIES = 256
"""The most queries that are scored together."""
_EPS = 1e-6
"""What the model adds to the mean square of a block's key."""


@dataclass(frozen=True)
class PooledCache:
    """Keys and values, the index keys [b, 1, capacity, E], and those of whole blocks [b, capacity // m, E]."""

    cache: KvCache
    index: Tensor
    pooled: Tensor

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.cache.length


class QwenSparse(Attention):
    """Softmax over the tokens of the k / m blocks with the largest Σ_i ReLU(q'_ti · e), and those after the last whole block.

    Qwen4-Exp, by its code in transformers 5.23 (QSA): e is the mean of k' over a block, divided by its root mean square; the
    weight of that norm can be part of q'. Inputs are q, k, v, and of the scorer q' [B, I, N, E] and k' [B, 1, N, E], whose
    rotation is not part of the attention. All heads keep the same tokens. The choice has no gradient. Raises ValueError on bad
    parameters.
    """

    paper = "Qwen4-Exp (Qwen 2026)"
    decodes = appends = True
    causal_only = True
    because = "blocks are whole once all their tokens are seen"

    def __init__(self, problem: Problem, k: int = 256, block: int = 16) -> None:
        super().__init__(problem)
        whole(k, "k")
        whole(block, "block")
        if k % block:
            raise ValueError(f"k={k}: must be a multiple of block={block}, so many tokens of whole blocks")
        self.k, self.block, self.scale = k, block, default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count scores of whole blocks, and attention to kept tokens. Raises TypeError or ValueError on bad parameters."""
        p, made = problem, cls(problem, **params)  # type: ignore[arg-type]
        (heads, width), m, trains = index_heads(p), made.block, workload is Workload.FORWARD_BACKWARD
        at = range(p.N - 1, p.N) if workload is Workload.DECODE else range(p.N)
        ended = float(sum((t + 1) // m for t in at))
        kept = float(sum(min(made.k, (t + 1) // m * m) + (t + 1) % m for t in at))
        exact = p.B * (2.0 * heads * width * ended + 2.0 * p.H * (p.D + p.M) * kept * (3 if trains else 1))
        executed, moved = exact, 0.0
        if workload.decodes:
            moved = p.B * p.dtype.bytes * (ended * width + p.kv_heads * kept * (p.D + p.M))
        else:
            scored = sum((stop - start) * (stop // m) for start, stop in _spans(p.N, p.B * heads, m))
            executed += p.B * 2.0 * heads * width * (scored - ended)
        scorer = float(len(at)) * (heads + 1) * width * p.dtype.bytes * p.B
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
        return *super().projections(problem), Projection("index_q", heads, width), Projection("index_k", 1, width)

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the tokens that each one attends to: int64 [B, 1, N, k + m - 1], -1 where it sees fewer."""
        index_q, index_k = inputs[3:]
        B, heads, N, _ = index_q.shape
        e, m = _pooled(index_k.squeeze(1), self.block), self.block
        kept = torch.full((B, 1, N, self.k + m - 1), ABSENT, dtype=torch.int64, device=index_q.device)
        for start, stop in _spans(N, B * heads, m):
            t = torch.arange(start, stop, device=index_q.device).unsqueeze(-1)
            if ended := stop // m:
                scores = _scores(index_q[:, :, start:stop], e[:, :ended])
                scores.masked_fill_(torch.arange(ended, device=t.device) >= (t + 1) // m, -math.inf)
                top = scores.topk(min(self.k // m, ended), dim=-1)
                tokens = _tokens(top.indices.masked_fill_(top.values == -math.inf, ABSENT), m)
                kept[:, 0, start:stop, : tokens.shape[-1]] = tokens
            rest = (t + 1) // m * m + torch.arange(m - 1, device=t.device)
            kept[:, 0, start:stop, self.k :] = rest.masked_fill(rest > t, ABSENT)
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
        """Compute softmax over the chosen tokens [N, k + m - 1] of the queries `at`."""
        assert choices is not None
        # an additional column takes the writes for absent keys
        seen = torch.zeros(len(at), len(k) + 1, dtype=torch.bool, device=q.device)
        seen.scatter_(1, torch.where(choices[at] < 0, len(k), choices[at]), value=True)
        return softmax_rows(q[at], k, v, self.scale, seen[:, :-1])

    def exact(self, q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all keys: the scorer is left out."""
        return super().exact(q, k, v)

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its keys, values and index keys. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, *scorer, choices=choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        cache, index_k, m = KvCache.of(k, v, capacity), scorer[1].detach(), self.block
        index = written(index_k.new_empty(len(q), 1, capacity, index_k.shape[-1]), index_k, 0)
        pooled = index_k.new_empty(len(q), capacity // m, index_k.shape[-1])
        pooled[:, : k.shape[2] // m] = _pooled(index_k.squeeze(1), m)
        return o.detach(), PooledCache(cache, index, pooled)

    @torch.no_grad()
    def step(
        self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, state: State, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Append one token, and attend to those of the best blocks and after them. Raises ValueError beyond the capacity."""
        index_q, index_k = scorer
        m, index = self.block, written(state.index, index_k, state.length)
        state = replace(state, cache=state.cache.then(k, v))
        n = state.length
        if n % m == 0:
            state.pooled[:, n // m - 1] = _pooled(index[:, 0, n - m : n], m)[:, 0]
        if choices is None:
            best = _scores(index_q, state.pooled[:, : n // m])[:, 0].topk(min(self.k // m, n // m), dim=-1).indices
            rest = torch.arange(n // m * m, n, device=q.device).expand(len(q), -1)
            kept = torch.cat((_tokens(best, m), rest), -1)
        else:
            kept = choices.view(len(q), -1)
        at = kept.clamp(min=0).view(len(q), 1, -1, 1)
        keys, values = (x.take_along_dim(at, 2) for x in (state.cache.keys, state.cache.values))
        heads = q.view(len(q), k.shape[1], -1, q.shape[3])
        weights = (heads @ keys.mT * self.scale).masked_fill((kept < 0).view(len(q), 1, 1, -1), -math.inf).softmax(-1)
        return (weights @ values).view(*q.shape[:3], -1), state


def _pooled(x: Tensor, m: int) -> Tensor:
    """Average each whole block of index keys, and norm it: [b, n, E] -> [b, n // m, E]."""
    blocks = x[:, : x.shape[1] // m * m].unflatten(1, (-1, m)) if x.shape[1] >= m else x.new_empty(len(x), 0, m, x.shape[-1])
    mean = blocks.to(sums(x.dtype)).mean(2)
    return (mean * torch.rsqrt(mean.square().mean(-1, keepdim=True) + _EPS)).to(x.dtype)


def _tokens(blocks: Tensor, m: int) -> Tensor:
    """List the tokens of blocks, none of an absent one: [..., c] -> [..., c m]."""
    tokens = blocks.unsqueeze(-1) * m + torch.arange(m, device=blocks.device)
    return tokens.masked_fill_(blocks.unsqueeze(-1) < 0, ABSENT).flatten(-2)


def _scores(index_q: Tensor, e: Tensor) -> Tensor:
    """Compute Σ_i ReLU(q'_ti · e_s): [b, I, n, E], [b, C, E] -> [b, n, C], in float32 at least."""
    dots = (index_q @ e.unsqueeze(1).mT).relu_()
    scores = dots.to(sums(dots.dtype)).sum(1)
    # of those that no index head answers to the later ones come first, whatever sorts them
    later = torch.arange(1, scores.shape[-1] + 1, device=e.device, dtype=scores.dtype) * 1e-30
    return torch.where(scores == 0, later, scores)


def _spans(N: int, rows: int, m: int) -> Iterator[tuple[int, int]]:
    """Cut N queries, of so many index heads and samples, into spans with a limited number of scores."""
    start = 0
    while start < N:
        stop = start + max(1, min(_QUERIES, N - start, SCORES // (rows * max(1, (start + _QUERIES) // m))))
        yield start, stop
        start = stop
