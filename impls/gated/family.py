"""Base class of all gated linear attentions: one recurrence by chunks, for which each method computes its own terms.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width; G = 1 or D decays of a token.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Workload

from ..partial.on_paper import on_paper
from ..recurrence.linear import linear_attention
from ..recurrence.parts import refuse_bad_chunk, sums
from ..recurrence.state import RecurrentState
from .cost import cost_by_chunks
from .reference import gated_linear_attention, gated_rows


@dataclass(frozen=True)
class Terms:
    """Terms of the recurrence S_t = exp(log_decay_t) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ q_t.

    q [B, H, N, D], k [B, K, N, D], v [B, K, N, M], log_decay [B, K, N, G], or [1, K, 1, 1] where it does not depend on the
    token.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor


class GatedFamily(Attention):
    """Gated linear attention in plain torch, by chunks of `chunk` tokens, in O(N (chunk + D) M).

    Causal; decodes over one state of D × M for each head of k and v, which all heads of q read that it serves: what is written
    and forgotten is that of the state. A subclass says by `terms` what is written, read and forgotten. Raises ValueError where
    chunk < 1.
    """

    decodes = True
    packs = True
    causal_only = True
    because = "its state goes from token to token, and forgets"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        self.chunk = chunk

    @property
    def scale(self) -> float:
        """Return the factor of the output."""
        return 1.0

    @abstractmethod
    def terms(self, *inputs: Tensor) -> Terms:
        """Compute the terms of any tokens of the inputs, one or all."""

    @classmethod
    def gates(cls, problem: Problem) -> int:
        """Count the numbers of a token in the inputs beyond q, k and v, for each head of k and v."""
        return sum(each.width for each in cls.projections(problem)[3:])

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        return cost_by_chunks(problem, on_paper(cls, problem, params).chunk, cls.gates(problem), workload)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Attend: q [B, H, N, D], k, v and the method's gates [B, K, N, ...] -> [B, H, N, M], any N, differentiable once."""
        return self._attend(inputs)[0]

    def reference(self, *inputs: Tensor) -> Tensor:
        """Compute the dense form of the same definition."""
        t = self.terms(*inputs)
        return gated_linear_attention(t.q, t.k, t.v, t.log_decay, self.scale)

    def rows(self, head: int, at: Tensor, *inputs: Tensor) -> Tensor:
        """Compute the dense form for the tokens `at`."""
        t = self.terms(*(x[None, None] for x in inputs))
        # log decays of whole heads are [1, K, 1, 1], others are of this head alone
        log_decay = t.log_decay[0, head * t.log_decay.shape[1] // self.problem.H]
        return gated_rows(at, t.q[0, 0], t.k[0, 0], t.v[0, 0], log_decay, self.scale)

    def exact(self, *inputs: Tensor) -> Tensor:
        """Softmax attention by the first three inputs; these methods are not meant to approximate it."""
        return super().exact(*inputs[:3])

    @torch.no_grad()
    def prefill(self, *inputs: Tensor, capacity: int) -> tuple[Tensor, RecurrentState]:  # noqa: ARG002 - the state is of one size
        """Attend to n ≥ 0 tokens by chunks, and return the state after them."""
        return self._attend(inputs)

    @torch.no_grad()
    def step(self, *inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Attend one token: decay the state, add key and value in place, and read it."""
        t = self.terms(*inputs)
        after = state.then(t.k, t.v, t.log_decay)
        return after.read(t.q, self.scale).to(t.v.dtype), after

    @torch.no_grad()
    def extend(self, *inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Attend to many more tokens by chunks, without changing the given state."""
        return self._attend(inputs, state.sums)

    def _attend(self, inputs: tuple[Tensor, ...], before: Tensor | None = None) -> tuple[Tensor, RecurrentState]:
        t = self.terms(*inputs)
        o, last = linear_attention(t.q, t.k, t.v, t.log_decay, scale=self.scale, chunk=self.chunk, state=before)
        return o, RecurrentState(last)


def heads(count: int, q: Tensor) -> Tensor:
    """Number so many heads from 0 on, [1, heads, 1, 1], in the dtype of states, so that decays are not rounded to that of q."""
    return torch.arange(count, device=q.device, dtype=sums(q.dtype)).view(1, -1, 1, 1)
