"""Base class of the delta rules and RWKV-7: chunks in parallel, and one state for all earlier tokens in decoding.

B, b batch, H heads, N, n tokens, D query/key width, M value width.
"""

from typing import ClassVar

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Workload, default_scale

from ..recurrence.parts import refuse_bad_chunk
from .cost import Work, cost_by_chunks
from .parameters import refuse_bad_scale
from .segments import Inputs, attend, attend_and_keep


class ByChunks(Attention):
    """A recurrence over a state of D × M, o_t = scale S_tᵀ q_t, computed by chunks with matrix products, in O(N (L + D) M).

    Inputs beyond q, k and v follow these as positional tensors. Raises ValueError where chunk < 1 or the scale is not finite.
    """

    decodes = True
    causal_only = True
    because = "its state goes from token to token"
    grouped = False
    work: ClassVar[Work]

    def __init__(self, problem: Problem, chunk: int = 64, scale: float | None = None) -> None:
        super().__init__(problem)
        self.chunk, self.scale = chunk, default_scale(problem) if scale is None else scale
        refuse_bad_chunk(chunk)
        refuse_bad_scale(self.scale)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        method = cls(problem, **params)  # type: ignore[arg-type]
        return cost_by_chunks(problem, cls.work, method.chunk, workload)

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part: each [X, S, L, ·], the state [X, D, M] before it -> o without the scale, and the state after it."""
        raise NotImplementedError

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token: each [b, H, 1, ·] -> o without the scale; updates the state [b, H, D, M] in place."""
        raise NotImplementedError

    def _form(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        o, state = self.by_chunks(inputs, state)
        return o.mul_(self.scale), state

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] and gates -> [B, H, N, M], any N, differentiable once."""
        return attend(self._form, _columns(q, k, v, *gates), self.chunk)

    def prefill(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *gates: Tensor,
        capacity: int,  # noqa: ARG002 - the state is of one size
    ) -> tuple[Tensor, Tensor]:
        """Attend without gradients, and return the state [b, H, D, M], float32 at least; any n ≥ 0 and capacity."""
        return attend_and_keep(self._form, _columns(q, k, v, *gates), self.chunk)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Attend one token, and update the state in place."""
        with torch.no_grad():
            o = self.by_token(tuple(x.to(state.dtype) for x in _columns(q, k, v, *gates)), state)
            return o.mul_(self.scale).to(v.dtype), state


def _columns(*inputs: Tensor) -> Inputs:
    """View inputs of one number a token, [B, H, N], as columns [B, H, N, 1]."""
    return tuple(x if x.dim() == 4 else x.unsqueeze(-1) for x in inputs)
