"""Blocks by a small index: each head of keys reads the blocks that hold the best-scored tokens (MiniMax-M3).

B or b batch, H heads, K heads of k and v, R = H / K, N or n tokens, L tokens of a block, E = selected - 1, D query/key width, M
value width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale, io_bytes, nominal_flops

from ...partial.cache import KvCache, written
from ...partial.index import ABSENT, spans
from ...partial.rows import softmax_rows
from ...partial.softmax import sums
from ...partial.unlearned import unlearned
from ..decoding import attend_chosen
from ..parameters import refuse_bad_count
from ..reference import chosen_seen, masked_softmax_attention, seen_in_blocks
from ..work import WALKS, Pairs, causal_pairs, products
from .choosing import Choice, largest
from .chosen_blocks import Terms, attend_blocks
from .heads import fold


@dataclass(frozen=True)
class IndexedCache:
    """Keys and values of all tokens so far, and the index keys [b, 1, capacity, D]."""

    tokens: KvCache
    index: Tensor

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.tokens.length


class BlocksByIndex(Attention):
    """Softmax over `selected` blocks: the `local` last ones, and those with the largest q'·k' among their tokens.

    MiniMax-M3, by its code in transformers 5.23. Inputs are q, k, v, and of the index q' [B, K, N, D] and k' [B, 1, N, D].
    Heads that share k and v select alike; the own block is read up to the query. The choice has no gradient. O(N²) index
    scores, O(N L E) attention. Raises ValueError on bad parameters.
    """

    paper = "MiniMax-M3 (MiniMax 2026)"
    decodes = appends = True
    causal_only = True
    because = "blocks are chosen among those before the query's own"

    def __init__(self, problem: Problem, block: int = 128, selected: int = 16, local: int = 1) -> None:
        super().__init__(problem)
        for name, value in (("block", block), ("selected", selected), ("local", local)):
            refuse_bad_count(value, name)
        if local > selected:
            raise ValueError(f"local={local!r}: must be at most selected={selected!r}, which counts the local blocks too")
        self.choice, self.local, self.terms = Choice(block, selected - 1), local, Terms(block, default_scale(problem))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the index scores of earlier blocks and attention to own and chosen ones. Raises TypeError or ValueError."""
        p, choice = problem, cls(problem, **params).choice  # type: ignore[arg-type]
        pairs, L = Pairs.of(p, workload, choice), choice.block
        index, columns = 2.0 * p.B * p.kv_heads * p.D, p.B * p.H * (p.D + p.M)
        exact = index * pairs.earlier + products(workload) * columns * (pairs.own + pairs.chosen)
        executed, moved = exact, 0.0
        if workload.decodes:
            read = pairs.earlier * p.D + p.kv_heads * (pairs.own + pairs.chosen) * (p.D + p.M)
            moved = float(p.B * p.dtype.bytes * read)
        else:
            own = p.N // L * causal_pairs(L) + causal_pairs(p.N % L)
            scored = sum((stop - start) * ((stop - 1) // L) * L for start, stop in spans(p.N, p.B * p.kv_heads, 1))
            walked = 2.0 * WALKS[workload] * (own + pairs.chosen) * max(p.D, p.M)
            # with the own block alone there is nothing to choose, and no score
            executed = (index * scored if choice.count else 0.0) + p.B * p.H * walked
        tokens = p.B * len(pairs.tokens) * p.D * (p.kv_heads + 1) * float(p.dtype.bytes)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact,
            executed_flops=executed,
            traffic_bytes=io_bytes(p, workload) + tokens + moved,
        )

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """Count the tokens of all blocks that a query sees; a shorter sequence leaves nothing to choose."""
        choice = cls(problem, **params).choice  # type: ignore[arg-type]
        return choice.block * (choice.count + 1)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and those of the index."""
        index = Projection("index_q", problem.kv_heads, problem.D), Projection("index_k", 1, problem.D)
        return *super().projections(problem), *index

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the earlier blocks of each query: int64 [B, K, N, selected - 1], -1 where there are fewer."""
        index_q, index_k = inputs[3:]
        (B, heads, N, _), L = index_q.shape, self.choice.block
        chosen = torch.full((B, heads, N, self.choice.count), ABSENT, dtype=torch.int64, device=index_q.device)
        for start, stop in spans(N, B * heads, 1):
            if (earlier := (stop - 1) // L) and self.choice.count:
                own = torch.arange(start, stop, device=index_q.device) // L
                chosen[:, :, start:stop] = self._best(index_q[:, :, start:stop], index_k[:, :, : earlier * L], own)
        return chosen

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *index: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and the index' -> [B, H, N, M], differentiable once."""
        chosen = self.choose(q, k, v, *index) if choices is None else choices
        o = attend_blocks(fold(q, k, v), chosen.flatten(0, 1), self.terms).view(*q.shape[:3], -1)
        return unlearned(o, *index)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *index: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over a dense mask of the choices; without any, make them."""
        chosen = self.choose(q, k, v, *index) if choices is None else choices
        o = masked_softmax_attention(q, k, v, chosen_seen(chosen, self.terms.block), self.terms.scale)
        return unlearned(o, *index)

    def rows(
        self,
        head: int,  # noqa: ARG002 - heads are alike
        at: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *_: Tensor,
        choices: Tensor | None = None,
    ) -> Tensor:
        """Compute softmax over the chosen blocks [N, selected - 1] of the queries `at`."""
        assert choices is not None
        return softmax_rows(q[at], k, v, self.terms.scale, seen_in_blocks(at, choices, self.terms.block, len(k)))

    def exact(self, q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all keys: the index is left out."""
        return super().exact(q, k, v)

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *index: Tensor, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its keys, values and index keys. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, *index, choices=choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        room = index[1].new_empty(len(q), 1, capacity, q.shape[3])
        return o.detach(), IndexedCache(KvCache.of(k, v, capacity), written(room, index[1], 0))

    @torch.no_grad()
    def step(
        self, q: Tensor, k: Tensor, v: Tensor, *index: Tensor, state: State, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Append one token, and attend to its own block and the best earlier ones. Raises ValueError beyond the capacity."""
        index_q, index_k = index
        tokens, kept, L = state.tokens.then(k, v), written(state.index, index_k, state.length), self.choice.block
        own = (tokens.length - 1) // L
        if choices is not None:
            chosen = choices.squeeze(2)
        elif own and self.choice.count:
            chosen = self._best(index_q, kept[:, :, : own * L], torch.full((1,), own, device=q.device)).squeeze(2)
        else:
            chosen = q.new_empty(len(q), k.shape[1], 0, dtype=torch.int64)
        o = attend_chosen(q.unflatten(1, (k.shape[1], -1)).squeeze(3), tokens, L, chosen, self.terms.scale)
        return o.view(*q.shape[:3], -1), IndexedCache(tokens, kept)

    def _best(self, index_q: Tensor, index_k: Tensor, own: Tensor) -> Tensor:
        """Choose among whole blocks: [b, K, n, D], [b, 1, C L, D], own blocks [n] -> int64 [b, K, n, E]."""
        scores = (index_q @ index_k.mT).to(sums(index_q.dtype)).unflatten(-1, (-1, self.choice.block)).amax(-1)
        c = torch.arange(scores.shape[-1], device=own.device)
        scores.masked_fill_((c > own.unsqueeze(-1) - self.local) & (c < own.unsqueeze(-1)), torch.inf)
        chosen: Tensor = largest(scores.flatten(0, 1), own, self.choice.count).long().unflatten(0, scores.shape[:2])
        return chosen
