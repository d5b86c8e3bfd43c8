"""Softmax attention that decodes from a cache of keys and values.

b or B batch, H heads, K heads of k and v, n or N tokens, S keys, D query/key width, M value width.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, State

from ..partial.cache import KvCache
from .exact import ExactSoftmax

_PROMPT_ROWS = 256
"""Queries of a prompt that are attended at a time, where scores are kept."""


class CachedSoftmax(ExactSoftmax):
    """Softmax attention with one function, `attend`, for the sequence, the prompt and the step."""

    decodes = appends = True
    masks = True

    @classmethod
    @abstractmethod
    def keeps_scores(cls, problem: Problem) -> bool:
        """Say whether all N × N scores are in memory at once."""

    @classmethod
    def prompt_cost(cls, problem: Problem, params: dict[str, Scalar]) -> Cost | None:
        """Count, where scores are kept, the keys that come before the last of the queries which are attended at a time."""
        cost, N = super().prompt_cost(problem, params), problem.N
        if cost is None or not cls.keeps_scores(problem):
            return cost
        pairs = sum((min(a + _PROMPT_ROWS, N) - a) * min(a + _PROMPT_ROWS, N) for a in range(0, N, _PROMPT_ROWS))
        return cost.model_copy(update={"executed_flops": cost.executed_flops * pairs / N**2})

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, S, D], [B, K, S, M] -> [B, H, N, M]; if causal, the last query sees all keys.

        Keys where key_mask, bool [B, S], is False do not exist; a query that sees no key gets 0.
        """

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and bool [B, N] or None -> [B, H, N, M], differentiable."""
        return self.attend(q, k, v, causal=self.causal, key_mask=key_mask)

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt causally, and keep its keys and values. Raises ValueError where it does not fit."""
        return self._prompt(q, k, v), KvCache.of(k, v, capacity)

    def state_after(self, *inputs: Tensor, capacity: int) -> State:
        """Keep the keys and values of a prompt, without attending to it. Raises ValueError where it does not fit."""
        _, k, v, *_ = inputs
        return KvCache.of(k, v, capacity)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one key and value, and attend to all of them. Raises ValueError beyond the capacity."""
        cache: KvCache = state.then(k, v)
        # no causal flag: torch aligns it to the first key, so the one query would see nothing else
        return self.attend(q, cache.keys, cache.values, causal=False), cache

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all keys and values, and attend to them and those before at once. Raises ValueError beyond the capacity."""
        q, k, v = inputs
        cache: KvCache = state.then(k, v)
        return self.attend(q, cache.keys, cache.values, causal=True), cache

    def _prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend causally, [b, H, n, D] ... -> [b, H, n, M], without ever holding all scores of a long prompt."""
        n = q.shape[2]
        rows = _PROMPT_ROWS if self.keeps_scores(self.problem) else max(1, n)
        parts = [
            self.attend(part, k[:, :, :end], v[:, :, :end], causal=True)
            for part, end in zip(q.split(rows, dim=2), (*range(rows, n, rows), n), strict=True)
            if end
        ]
        return torch.cat(parts, dim=2) if parts else v.new_empty(*q.shape[:3], v.shape[3])
