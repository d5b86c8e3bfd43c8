"""Attention to the tokens of chosen blocks, the same for all heads, and to those after the last whole block (Qwen4-Exp).

B or b batch, H heads, K heads of k and v, I = H / 2 index heads, E = D / 2 their width, N or n tokens, m tokens of a block, k
tokens of chosen blocks, D query/key width, M value width.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload, io_bytes, nominal_flops

from ...partial.cache import KvCache, written
from ...partial.index import ABSENT, index_heads, largest, largest_from, scored
from ...partial.softmax import sums
from ..patterns.pattern import whole
from .listed import ListedTokens

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


class QwenSparse(ListedTokens):
    """Softmax over the tokens of the k / m blocks with the largest Σ_i ReLU(q'_ti · e), and those after the last whole block.

    Qwen4-Exp, by its code in transformers 5.23 (QSA): e is the mean of k' over a block, divided by its root mean square; the
    weight of that norm can be part of q'. Inputs are q, k, v, and of the scorer q' [B, I, N, E] and k' [B, 1, N, E], whose
    rotation is not part of the attention. All heads keep the same tokens. The choice has no gradient. Raises ValueError on bad
    parameters.
    """

    paper = "Qwen4-Exp (Qwen 2026)"
    because = "blocks are whole once all their tokens are seen"

    def __init__(self, problem: Problem, k: int = 256, block: int = 16) -> None:
        super().__init__(problem)
        whole(k, "k")
        whole(block, "block")
        if k % block:
            raise ValueError(f"k={k}: must be a multiple of block={block}, so many tokens of whole blocks")
        self.k, self.block = k, block

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count scores of whole blocks, and attention to kept tokens. Raises TypeError or ValueError on bad parameters."""
        p, made = problem, cls(problem, **params)  # type: ignore[arg-type]
        (heads, width), m, trains = index_heads(p), made.block, workload is Workload.FORWARD_BACKWARD
        at = range(p.N - 1, p.N) if workload is Workload.DECODE else range(p.N)
        ended = float(sum((t + 1) // m for t in at))
        chosen, after = sum(min(made.k, (t + 1) // m * m) for t in at), sum((t + 1) % m for t in at)
        scoring, attending = 2.0 * p.B * heads * width, 2.0 * p.B * p.H * (p.D + p.M) * (3 if trains else 1)
        # of a list the absent places are computed too, with a weight of 0; a step lists no block that is not there
        if workload.decodes:
            moved = p.B * p.dtype.bytes * (ended * width + p.kv_heads * (chosen + after) * (p.D + p.M))
            executed = scoring * ended + attending * (chosen + len(at) * (m - 1))
        else:
            moved = 0.0
            executed = scoring * scored(p.N, heads, m) + attending * len(at) * (min(made.k, p.N // m * m) + m - 1)
        scorer = float(len(at)) * (heads + 1) * width * p.dtype.bytes * p.B
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=scoring * ended + attending * (chosen + after),
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
        """Choose the tokens that each one attends to: int64 [B, 1, N, min(k, N // m m) + m - 1], -1 where it sees fewer."""
        index_q, index_k = inputs[3:]
        m = self.block
        return self._tokens(0, largest(index_q, _pooled(index_k.squeeze(1), m), None, m, self.k // m))

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
        """Append tokens, and attend from each to those of the best blocks and after them. Raises ValueError beyond capacity."""
        index_q, index_k = scorer
        m, start, index = self.block, state.length, written(state.index, index_k, state.length)
        state = replace(state, cache=state.cache.then(k, v))
        before, ended = start // m, state.length // m
        state.pooled[:, before:ended] = _pooled(index[:, 0, before * m : ended * m], m)
        if choices is None:
            best = largest_from(start, index_q, state.pooled[:, :ended], None, m, self.k // m)
            choices = self._tokens(start, best)
        return self.from_last(q, state.cache, choices), state

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all tokens, of which each attends alike to those up to it. Raises ValueError beyond the capacity."""
        return self.step(*inputs, state=state)

    def _tokens(self, start: int, blocks: Tensor) -> Tensor:
        """List the tokens of chosen blocks, and those after whole blocks: [b, n, c] -> [b, 1, n, c m + m - 1]."""
        m, t = self.block, torch.arange(start, start + blocks.shape[1], device=blocks.device).unsqueeze(-1)
        chosen = blocks.unsqueeze(-1) * m + torch.arange(m, device=blocks.device)
        chosen = chosen.masked_fill_(blocks.unsqueeze(-1) < 0, ABSENT).flatten(-2)
        rest = (t + 1) // m * m + torch.arange(m - 1, device=blocks.device)
        return torch.cat((chosen, rest.masked_fill(rest > t, ABSENT).expand(len(chosen), -1, -1)), -1).unsqueeze(1)


def _pooled(x: Tensor, m: int) -> Tensor:
    """Average each whole block of index keys, and norm it: [b, n, E] -> [b, n // m, E]."""
    blocks = x[:, : x.shape[1] // m * m].unflatten(1, (-1, m)) if x.shape[1] >= m else x.new_empty(len(x), 0, m, x.shape[-1])
    mean = blocks.to(sums(x.dtype)).mean(2)
    return (mean * torch.rsqrt(mean.square().mean(-1, keepdim=True) + _EPS)).to(x.dtype)
