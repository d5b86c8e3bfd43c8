"""Base class of recurrences whose parts are computed by chunks, under autograd: a state stands for all earlier tokens.

B, b batch, H heads, K heads of k and v, R = H / K, N, n tokens, D query/key width, M value width; X rows (batch and heads of k
and v folded), S chunks of L tokens.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Problem, default_scale

from .heads import of_one_token, one_token_of
from .parts import refuse_bad_chunk, refuse_bad_scale
from .walk import Inputs, attend, attend_and_keep


class ByChunks(Attention):
    """A recurrence over a state, of D × M unless told, that is computed by chunks of L tokens with matrix products.

    Each head of k and v has one state, which all heads of q read that it serves. Inputs beyond q, k and v follow these as
    positional tensors, and have the heads of k and v: they belong to what is written and forgotten. Raises ValueError where
    chunk < 1 or the scale is not finite.
    """

    decodes = True
    packs = True
    causal_only = True
    because = "its state goes from token to token"

    def __init__(self, problem: Problem, chunk: int = 32, scale: float | None = None) -> None:
        super().__init__(problem)
        self.chunk, self.scale = chunk, default_scale(problem) if scale is None else scale
        refuse_bad_chunk(chunk)
        refuse_bad_scale(self.scale)

    @property
    def size(self) -> tuple[int, int] | None:
        """Return the size of the state of a head, where it is not D × M."""
        return None

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part: q [S, X, R L, D], others [S, X, L, ·], the state before it [X, D, M] -> o unscaled, that after it."""
        raise NotImplementedError

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token: q [b, K, R, D], others [b, K, 1, ·] -> o unscaled [b, K, R, M]; updates the state in place."""
        raise NotImplementedError

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Inputs:
        """Return what `by_chunks` and `by_token` take for these inputs, [B, ·, N, ·] or [B, ·, N]: the same, by default."""
        return q, k, v, *gates

    def _columns(self, *inputs: Tensor) -> Inputs:
        """View inputs of one number a token, [B, K, N], as columns [B, K, N, 1]."""
        return tuple(x if x.dim() == 4 else x.unsqueeze(-1) for x in self.prepared(*inputs))

    def _form(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        o, state = self.by_chunks(inputs, state)
        return o.mul_(self.scale), state

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and gates -> [B, H, N, M], any N, differentiable once."""
        return attend(self._form, self._columns(q, k, v, *gates), self.chunk, self.size)

    def prefill(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *gates: Tensor,
        capacity: int,  # noqa: ARG002 - the state is of one size
    ) -> tuple[Tensor, Tensor]:
        """Attend without gradients, and return the state [b, K, D, M], float32 at least; any n ≥ 0 and capacity."""
        return attend_and_keep(self._form, self._columns(q, k, v, *gates), self.chunk, self.size)

    def extend(self, *inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Attend many more tokens by chunks, without gradients; the given state stays as it is."""
        return attend_and_keep(self._form, self._columns(*inputs), self.chunk, self.size, state)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Attend one token, and update the state in place."""
        with torch.no_grad():
            asks, *others = (x.to(state.dtype) for x in self._columns(q, k, v, *gates))
            o = self.by_token((of_one_token(asks, k.shape[1]), *others), state)
            return one_token_of(o.mul_(self.scale).to(v.dtype), q.shape[1]), state
