"""Base class of all sparse attentions: the pattern, the dense definition, and decoding from the keys still needed.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from abc import abstractmethod
from functools import partial
from inspect import Signature
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Cost, Problem, Scalar, State, Workload, default_scale, io_bytes, nominal_flops, takes

from ..partial.rows import seen_by, softmax_rows
from ..partial.softmax import is_fused
from .decoding.caches import Caches, caches_for
from .decoding.cost import decoding_cost
from .decoding.steps import extend, state_of, step
from .eager.plan import plan
from .eager.union import union_attention
from .patterns.pattern import Pattern, Shape
from .reference import masked_softmax_attention
from .work import exact_flops


class SparseAttention(Attention):
    """Softmax over the keys that a pattern shows, with scale 1 / √D. Parameters are those of its pattern.

    Raises TypeError or ValueError on bad parameters.
    """

    paper = "arXiv:1904.10509"
    decodes = True
    pattern_type: ClassVar[type[Pattern]]
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls) -> None:
        if pattern_type := getattr(cls, "pattern_type", None):
            cls.__signature__ = takes(pattern_type)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem)
        self.pattern = self.pattern_type.of(problem, params)
        self.causal, self.scale = problem.causal, default_scale(problem)
        self.sinks: nn.Parameter | None = None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the pairs of the definition, and what this implementation executes. Raises TypeError or ValueError."""
        pattern = cls.pattern_type.of(problem, params)
        if workload.decodes:
            return decoding_cost(problem, pattern, workload)
        return Cost(
            nominal_flops=nominal_flops(problem, workload),
            exact_flops=exact_flops(problem, pattern, workload),
            executed_flops=cls.executed_flops(problem, pattern, workload),
            traffic_bytes=io_bytes(problem, workload),
        )

    @classmethod
    @abstractmethod
    def executed_flops(cls, problem: Problem, pattern: Pattern, workload: Workload) -> float:
        """Count the FLOPs that a call over all N tokens executes."""

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """Return the span of the pattern at this length."""
        return cls.pattern_type.of(problem, params).span

    def shape(self, N: int) -> Shape:
        """Return the shape of a sequence or prompt of N tokens."""
        return Shape(N, self.problem.H, self.causal)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute softmax over the keys that the dense mask shows; a query that sees none gets 0."""
        return masked_softmax_attention(q, k, v, self.pattern.seen(self.shape(q.shape[2]), q.device), self.sinks)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute softmax over the keys that the pattern, as it is printed, shows to the queries `at`."""
        N, h = len(k), torch.tensor(head, device=at.device)
        printed = self.pattern.sees(self.shape(N), at.unsqueeze(1), torch.arange(N, device=at.device), h)
        seen = printed & seen_by(at, N, causal=self.causal, key_mask=key_mask)
        return softmax_rows(q[at], k, v, self.scale, seen, None if self.sinks is None else self.sinks[head])

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep what later tokens can see of it. Raises ValueError where it does not fit."""
        return self.prompt(q, k, v), self.state_after(q, k, v, capacity=capacity)

    def state_after(self, *inputs: Tensor, capacity: int) -> State:
        """Keep what later tokens can see of a prompt, without attending to it. Raises ValueError where it does not fit."""
        _, k, v = inputs
        return state_of(self._caches(capacity), k, v, capacity)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one token, and attend to the kept keys that it sees. Raises ValueError beyond the capacity."""
        return step(self._caches(state.capacity), self.scale, (q, k, v), state, self.sinks)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all tokens, at once where all heads read one cache alike. Raises ValueError beyond the capacity."""
        caches, (q, k, v) = self._caches(state.capacity), inputs
        if not caches.is_one:
            return super().extend(*inputs, state=state)
        sees = partial(self.pattern.sees, self.shape(state.capacity), h=torch.zeros((), dtype=torch.int64, device=q.device))
        return extend(caches, self.scale, (q, k, v), state, sees, self.sinks)

    def prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend causally in O(n) memory: [b, H, n, D], [b, K, n, D], [b, K, n, M] -> [b, H, n, M], n ≥ 0."""
        n = q.shape[2]
        if not n:
            return v.new_empty(*q.shape[:3], v.shape[3])
        walks = plan(self.pattern, Shape(n, self.problem.H, causal=True), is_fused(q))
        return union_attention(q, k, v, walks, self.scale, self.sinks)

    def _caches(self, capacity: int) -> Caches:
        # room for no token is laid out as for one, and never written
        return caches_for(self.pattern, Shape(max(1, capacity), self.problem.H, causal=True), self.problem.kv_heads)
