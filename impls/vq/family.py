"""Base class of all forms of Transformer-VQ: the definition, its parameters, and decoding.

B or b batch, H heads of q, K of k and v, N or n tokens, L tokens of a block, D query/key width, M value width, S codes.
"""

from abc import abstractmethod
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cell, Problem, Scalar, State, each_tensor, takes

from .decoding import VQState, attend_state, state_of
from .options import RELATIVE, VQOptions
from .quantised_keys import QuantisedKeys
from .reference import Definition, quantised_attention, quantised_rows
from .relative import RelativeBias


class VQFamily(QuantisedKeys):
    """Softmax attention over quantised keys, in time and memory linear in N; a subclass computes it by `_attend`.

    Lingle 2023, theorems 3.4 (without a mask) and 3.7 (causal). Decodes with a state of constant size. Parameters are those of
    `VQOptions`. Raises ValueError on bad parameters, TypeError on unknown ones.
    """

    __signature__ = takes(VQOptions)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        options = VQOptions(**params)  # type: ignore[arg-type]
        super().__init__(problem, options)
        self.options = options
        self.position = RelativeBias(problem, options.block, self.factor) if options.bias == RELATIVE else None
        refuse_bias_without_order(problem, options)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a bias by position without causality."""
        if cell.params.get("bias") == RELATIVE and not cell.problem.causal:
            return "without a mask all keys are in the table, which knows no positions; bias must be none"
        return None

    @abstractmethod
    def _attend(self, q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
        """Attend by codes.

        [B, H, N, D], [B, K, N, D], [B, K, N, M], int64 [B, K, N], [K, S, D] -> [B, H, N, M], any N ≥ 1 and any B.

        q is normalised and scaled, without `position.u`; k_hat has the values of the codebook's rows and the gradient of k. The
        scale inside is 1. Differentiable in q, in k_hat through the window only (0 elsewhere, never None), and in v.
        """

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], codes [B, K, N] or None -> [B, H, N, M], differentiable once."""
        k_hat, codes, codebook = self.coded(k, choices)
        return self._attend(self.normalised(q), k_hat, v, codes, codebook)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute dense softmax over the quantised keys, with the gradients of the paper."""
        o = self.options
        definition = Definition(o.block, self.problem.causal, o.gradient_through_table)
        bias = None if self.position is None else self.position.as_defined()
        return quantised_attention(*self.as_defined(q, k, choices), v, definition, bias)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax of the queries `at` over the quantised keys, with codes [N]."""
        assert choices is not None
        o, bias = self.options, None
        if self.position is not None:
            whole = self.position.as_defined()
            bias = replace(whole, u=whole.u[head], v=whole.v[head], w=whole.w[head])
        definition = Definition(o.block, self.problem.causal, o.gradient_through_table)
        return quantised_rows(at, *self.head_as_defined(head, q, k, choices), v, definition, bias)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Softmax over the keys as they are, normalised, scaled and biased alike."""
        if self.position is None:
            return super().exact(q, k, v)
        definition, bias = Definition(self.options.block, causal=True), self.position.as_defined()
        return quantised_attention(self.normalised(q), self.normalised(k), v, definition, bias)

    def prefill(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        capacity: int,  # noqa: ARG002 - the state is of one size
        choices: Tensor | None = None,
    ) -> tuple[Tensor, VQState]:
        """Attend by the method's own forward, and build the table in one pass over v; any n ≥ 0."""
        k_hat, codes, codebook = self.coded(k, choices)
        state = state_of(k_hat, v, codes, codebook.shape[1], self.options.block)
        if not q.shape[2]:
            return v.new_empty(*q.shape[:3], v.shape[3]), state
        return self._attend(self.normalised(q), k_hat, v, codes, codebook), state

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: VQState, choices: Tensor | None = None) -> tuple[Tensor, VQState]:
        """Attend one token without a gradient; every L tokens the oldest block moves into the table."""
        return self._attend_newest(self.normalised(q), (*self.coded(k, choices), v), state)

    @torch.no_grad()
    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend to more tokens at once, as many as there are before a block moves into the table, from a copy of the state."""
        q, k, v = inputs
        q, (k_hat, codes, codebook), outputs = self.normalised(q), self.coded(k, None), []
        state, start = each_tensor(state, Tensor.clone), 0
        while start < q.shape[2]:
            new = slice(start, start + state.room)
            tokens = k_hat[:, :, new], codes[:, :, new], codebook, v[:, :, new]
            o, state = self._attend_newest(q[:, :, new], tokens, state)
            outputs.append(o)
            start = new.stop
        return torch.cat(outputs, 2), state

    def _attend_newest(self, q: Tensor, tokens: tuple[Tensor, ...], state: VQState) -> tuple[Tensor, VQState]:
        """Append tokens that there is room for to the state in place, and attend for their queries [b, H, n, D], normalised."""
        k_hat, codes, codebook, v = tokens
        state, n = state.then(k_hat, v, codes), q.shape[2]
        if self.position is None:
            later = q.new_full((n, n), -torch.inf).triu(1)
            bias = None if n == 1 else F.pad(later, (state.filled - n, 0)).expand(*q.shape[:2], -1, -1)
            return attend_state(q, codebook, state, bias), state
        seen = ((t, state.filled - n + 1 + t) for t in range(n))
        rows = [F.pad(self.position.of_last(q[:, :, t : t + 1], s), (0, state.filled - s), value=-torch.inf) for t, s in seen]
        return attend_state(self.position.to_content(q), codebook, state, torch.cat(rows, 2)), state


def refuse_bias_without_order(problem: Problem, options: VQOptions) -> None:
    """Raise ValueError on a bias by position without a causal window."""
    if options.bias == RELATIVE and not problem.causal:
        raise ValueError("bias='relative': must be none where nothing is causal")
