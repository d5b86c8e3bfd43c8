"""Transformer-XL: segments with a memory of the tokens before, and positions relative to the query.

B or b batch, H heads, N or n tokens, L tokens of a segment, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Cost, Problem, Scalar, State, Workload, default_scale

from ...partial.heads import of_each_head
from ...partial.softmax import Rule, attend, sums
from ..limits import whole
from ..segment_cache import SegmentCache
from ..transformer_xl_cost import cost
from ..transformer_xl_reference import Weights, transformer_xl_attention, transformer_xl_rows
from .positions import sinusoids
from .relative import Form, relative_attention
from .segments import Segments


class TransformerXL(Attention):
    """Attention in segments of `segment` tokens, which also see the `memory` tokens before them (default: as many).

    Dai et al. 2019, section 3.3, in O(N (memory + segment)); the memory is constant, without a gradient. Learned: u, w [H, D]
    and W_r [H, D, D], for the positions r_x = W_r R_x. Causal. Raises ValueError on bad parameters.
    """

    paper = "arXiv:1901.02860"
    decodes = True
    causal_only = True
    sinusoids: Tensor

    def __init__(self, problem: Problem, segment: int = 512, memory: int | None = None) -> None:
        super().__init__(problem)
        H, D = problem.H, problem.D
        self.segment = whole(segment, "segment")
        self.memory = segment if memory is None else whole(memory, "memory", least=0)
        self.scale = default_scale(problem)
        # small, but not 0, with which no check would notice that they are missing
        self.u, self.w = (nn.Parameter(0.1 * torch.randn(H, D)) for _ in range(2))
        self.W_r = nn.Parameter(torch.randn(H, D, D) / math.sqrt(D))
        width = Segments.of(problem.N, self.segment, self.memory).width
        self.register_buffer("sinusoids", sinusoids(width, D), persistent=False)
        self.to(getattr(torch, problem.dtype))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes by formula. Raises TypeError or ValueError on bad parameters."""
        return cost(problem, workload, **params)  # type: ignore[arg-type]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once.

        Raises ValueError where windows are longer than at the N that it was built for.
        """
        k, v = of_each_head(q, k, v)
        # (q + w)·W_r R_x = Wᵣᵀ(q + w)·R_x: the table needs no gradient, and is the same for all heads
        position = (q + self.w[:, None]) @ self.W_r
        form = Form(self._segments(q.shape[2]), self.scale)
        return relative_attention(q + self.u[:, None], position, k, v, self.sinusoids, form)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the dense definition, with r_x gathered by distance."""
        weights, (k, v) = Weights(self.u, self.w, self.W_r, self.sinusoids), of_each_head(q, k, v)
        return transformer_xl_attention(q, k, v, weights, (self.segment, self.memory))

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the dense definition for the queries `at`."""
        weights = Weights(self.u[head], self.w[head], self.W_r[head], self.sinusoids)
        return transformer_xl_rows(at, q, k, v, weights, (self.segment, self.memory))

    @torch.no_grad()
    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its last segment and memory. Raises ValueError where it does not fit."""
        state = SegmentCache.of(k, v, self._segments(capacity))
        return self(q, k, v) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3]), state

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one token, and attend to its segment so far and the memory. Raises ValueError beyond the capacity."""
        cache: SegmentCache = state.then(k, v)
        keys, values = of_each_head(q, cache.keys, cache.values)
        # one product for each head: broadcasting would copy W_r for each sample
        position = torch.einsum("bhnd,hde->bhne", q + self.w[:, None], self.W_r).mul_(self.scale)
        bias = position.flatten(0, 2) @ self.sinusoids[-keys.shape[2] :].mT
        bias = bias.to(sums(q.dtype)).unflatten(0, q.shape[:3])
        o, _ = attend(q + self.u[:, None], keys, values, Rule(self.scale, bias=bias))
        return o, cache

    def _segments(self, N: int) -> Segments:
        segments = Segments.of(N, self.segment, self.memory)
        if segments.width > len(self.sinusoids):
            raise ValueError(f"{N} tokens: the table of distances is that of {self.problem.N}")
        return segments
