"""Adaptive span: every head learns how far back it looks.

B or b batch, H heads, N or n tokens, w keys within the longest span, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Cost, Problem, Scalar, State, Workload, default_scale

from ...partial.heads import of_each_head
from ...partial.softmax import Rule, attend
from ..adaptive_span_cost import cost, first_spans, nearest
from ..adaptive_span_reference import adaptive_span_attention, adaptive_span_rows
from ..limits import positive
from ..span_ring import SpanRing
from .span_mask import reach, soft_mask
from .spans import Form, span_attention


class AdaptiveSpan(Attention):
    """Softmax times a soft mask, 1 up to z tokens back and from there linearly to 0 over `ramp` (32) more; z is learned.

    Sukhbaatar et al. 2019, section 2.2, in O(N (z + ramp)) for each head. A token sees those before it, and the first, which
    sees none, gives 0; with `sees_itself` (False) a token also sees itself. Head h starts with z = span (h + 1) / H tokens, so
    that heads differ and the longest has `span` (256). Causal. Raises ValueError on bad parameters.
    """

    paper = "arXiv:1905.07799"
    decodes = True
    causal_only = True

    def __init__(self, problem: Problem, span: float = 256, ramp: float = 32, sees_itself: bool = False) -> None:
        super().__init__(problem)
        self.form = Form(positive(ramp, "ramp"), default_scale(problem), nearest(sees_itself))
        self.z = nn.Parameter(torch.tensor(first_spans(problem.H, span), dtype=getattr(torch, problem.dtype)))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes with the initial spans. Raises TypeError or ValueError on bad parameters."""
        return cost(problem, workload, **params)  # type: ignore[arg-type]

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """Count the tokens that the longest head reaches at first, its ramp included; a span may be endless in its dtype."""
        method = cls(problem, **params)  # type: ignore[arg-type]
        longest: float = max(method.z.tolist())
        return math.ceil(min(longest + method.form.ramp, problem.N))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        k, v = of_each_head(q, k, v)
        return span_attention(q, k, v, self.z, self.form)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the dense definition."""
        k, v = of_each_head(q, k, v)
        return adaptive_span_attention(q, k, v, self.z, self.form.ramp, self.form.nearest)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the dense definition for the queries `at`."""
        return adaptive_span_rows(at, q, k, v, self.z[head : head + 1], self.form.ramp, self.form.nearest)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Softmax attention over all keys before a query, and its own where it sees itself: what infinite spans give."""
        k, v = of_each_head(q, k, v)
        return span_attention(q, k, v, torch.full_like(self.z, math.inf), self.form)

    @torch.no_grad()
    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep what the longest span reaches. Raises ValueError where it does not fit."""
        w = reach(max(self.z.tolist()), self.form.ramp, max(1, capacity), self.form.nearest)
        # the ring always holds the last token, which is the nearest key of the next one
        state = SpanRing.of(k, v, max(1, self.form.nearest + w), capacity)
        return self(q, k, v) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3]), state

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one token, and attend to those in the ring. Raises ValueError beyond the capacity."""
        ring: SpanRing = state.then(k, v)
        bias = soft_mask(self.z, self.form.ramp, self.form.nearest, ring.distances()[None]).log_()
        keys, values = of_each_head(q, ring.k[:, :, : ring.kept], ring.v[:, :, : ring.kept])
        o, _ = attend(q, keys, values, Rule(self.form.scale, bias=bias[None]))
        sees_nothing = bias.amax(-1, keepdim=True) == -torch.inf
        return o.masked_fill_(sees_nothing, 0), ring
