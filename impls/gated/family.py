"""What all gated linear attentions share: one recurrence, computed by chunks, that they fill in differently.

B batch, H heads, N tokens, D query/key width, M value width; G = 1 or D decays of a token.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Workload

from ..recurrence.linear import linear_attention
from ..recurrence.parts import refuse_bad_chunk, sums
from ..recurrence.state import RecurrentState
from .cost import Extra, cost_by_chunks
from .reference import gated_linear_attention, gated_rows


@dataclass(frozen=True)
class Terms:
    """What a method makes of its inputs: S_t = exp(log_decay_t) S_{t-1} + k_t v_tᵀ, o_t = scale S_tᵀ q_t.

    q, k [B, H, N, D], v [B, H, N, M], log_decay [B, H, N, G], or [1, H, 1, 1] where it knows nothing of the tokens.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor


class GatedFamily(Attention):
    """Gated linear attention in plain torch, by chunks of `chunk` tokens; causal, and decodes over one state of D x M.

    A subclass says by `terms` what is written, read and forgotten. Raises ValueError where chunk < 1.
    """

    decodes = True

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        self.chunk = chunk

    @property
    def scale(self) -> float:
        """What the output is multiplied by."""
        return 1.0

    @abstractmethod
    def terms(self, *inputs: Tensor) -> Terms:
        """Of any tokens of the inputs, one or all."""

    @property
    def extra(self) -> Extra:
        """What a call moves and allocates beyond q, k, v and the recurrence; of fixed decays, nothing."""
        return Extra(by_token=False)

    @classmethod
    def on_paper(cls, problem: Problem, params: dict[str, Scalar]) -> Self:
        """The method without its numbers, so that costs draw none. Raises what the constructor raises."""
        with torch.device("meta"):
            return cls(problem, **params)  # type: ignore[arg-type]

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Only the causal form, and as many heads of k and v as of q."""
        if not cell.problem.causal:
            return "a state that forgets what came before is causal; there is no form without a mask"
        if cell.problem.kv_heads != cell.problem.H:
            return "heads of k and v that serve several heads of q are not implemented; kv_heads must equal H"
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes, the peak on a CPU. Raises TypeError or ValueError on bad parameters."""
        method = cls.on_paper(problem, params)
        return cost_by_chunks(problem, method.chunk, method.extra, workload)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Of q, k, v and the method's gates, all [B, H, N, ...] -> [B, H, N, M], any N, differentiable once."""
        return self._attend(inputs)[0]

    def reference(self, *inputs: Tensor) -> Tensor:
        """The dense form of the same definition."""
        t = self.terms(*inputs)
        return gated_linear_attention(t.q, t.k, t.v, t.log_decay, self.scale)

    def rows(self, head: int, at: Tensor, *inputs: Tensor) -> Tensor:
        """What is left of each earlier token at these, by the sums of log decays so far."""
        t = self.terms(*(x[None, None] for x in inputs))
        # decays of whole heads are made for all of them
        log_decay = t.log_decay[0, head if t.log_decay.shape[1] > 1 else 0]
        return gated_rows(at, t.q[0, 0], t.k[0, 0], t.v[0, 0], log_decay, self.scale)

    def exact(self, *inputs: Tensor) -> Tensor:
        """Softmax attention by the first three inputs; these methods are not meant to approximate it."""
        return super().exact(*inputs[:3])

    def prefill(self, *inputs: Tensor, capacity: int) -> tuple[Tensor, RecurrentState]:  # noqa: ARG002 - the state is of one size
        """The method's own forward, which gives the state too; any n ≥ 0."""
        return self._attend(inputs)

    def step(self, *inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One token: the state forgets, takes in key and value, in place, and the query reads it."""
        t = self.terms(*inputs)
        after = state.then(t.k, t.v, t.log_decay)
        return after.read(t.q, self.scale).to(t.v.dtype), after

    def extend(self, *inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Many more tokens at once, by chunks; the state given stays as it was."""
        return self._attend(inputs, state.sums)

    def _attend(self, inputs: tuple[Tensor, ...], before: Tensor | None = None) -> tuple[Tensor, RecurrentState]:
        t = self.terms(*inputs)
        o, last = linear_attention(t.q, t.k, t.v, t.log_decay, scale=self.scale, chunk=self.chunk, state=before)
        return o, RecurrentState(last)


def heads(H: int, q: Tensor) -> Tensor:
    """0 … H - 1, [1, H, 1, 1], in the dtype of states: decays of whole heads are made on the device, never rounded to q's."""
    return torch.arange(H, device=q.device, dtype=sums(q.dtype)).view(1, -1, 1, 1)
