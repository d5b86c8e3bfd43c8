"""Comba: a closed loop, in which what the state returns corrects what is written, and the key corrects the query.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor, nn

from attnbench.api import Problem

from ...partial.heads import of_each_head
from ...recurrence.decay import Decay
from ...recurrence.heads import each_head
from ...recurrence.walk import Inputs
from ..reference import corrected_attention, corrected_rows
from .delta_rule import corrected
from .gated_deltanet import GatedDeltaNet
from .pairs import meet


class Comba(GatedDeltaNet):
    """Scalar plus low-rank transition, S_t = (α_t - σ(b) β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, o_t = scale S_tᵀ (q_t - d k_t).

    Hu et al. 2025, *Improving Bilinear RNNs with Closed-loop Control*, section 3, in O(N (L + D) M). Inputs are those of Gated
    DeltaNet; unlike there, a key reads the state *before* it decays. b [K] and d [H] are learned, for b belongs to the state
    and d to the query: b is 1 at first, and d `correction`, for which the authors take 0.02 in a small model and 1 in a larger
    one. Raises ValueError where the correction is not finite.
    """

    paper = "arXiv:2506.02475"

    def __init__(self, problem: Problem, chunk: int = 32, scale: float | None = None, correction: float = 1.0) -> None:
        super().__init__(problem, chunk, scale)
        if isinstance(correction, bool | str) or not math.isfinite(correction):
            raise ValueError(
                f"correction={correction!r}: so much of the key is taken from the query; it must be a finite number"
            )
        dtype = getattr(torch, problem.dtype)
        self.feedback = nn.Parameter(torch.ones(problem.kv_heads, dtype=dtype))
        self.correction = nn.Parameter(torch.full((problem.H,), float(correction), dtype=dtype))

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Inputs:
        """Correct the queries, and say how much of what each key reads is removed."""
        beta, g = gates
        (key,) = of_each_head(q, k)
        return q - self.correction.view(-1, 1, 1) * key, k, v, beta, beta * self.feedback.sigmoid().unsqueeze(-1), g

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks."""
        q, k, v, beta, fed_back, g = inputs
        return corrected(meet(Decay.of(g), (q,), (k,), early=(each_head(k, fed_back),)), each_head(v, beta), state)

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token."""
        q, k, v, beta, fed_back, g = inputs
        u = v * beta - (k * fed_back) @ state
        state.mul_(g.exp()).addcmul_(k.mT, u)
        return q @ state

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the dense closed form: one triangular system for all N tokens."""
        q, k, v, beta, fed_back, g = self.prepared(q, k, v, *gates)
        beta, fed_back = beta.unsqueeze(-1), fed_back.unsqueeze(-1)
        return corrected_attention(q, k, beta * v, fed_back * k, g, early=True) * self.scale

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Compute the recurrence of head `head` up to the last of the tokens `at`."""
        beta, g = gates
        beta = beta.unsqueeze(-1)
        fed_back = self.feedback[head * self.problem.kv_heads // self.problem.H].sigmoid() * beta
        asks, removed = q - self.correction[head] * k, fed_back * k
        return corrected_rows(at, asks, k, beta * v, removed, g, early=True) * self.scale
