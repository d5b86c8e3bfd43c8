"""Differential attention: the difference of two softmax maps.

B batch, H heads, K heads of k and v, N tokens, n rows, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor, nn

from attnbench.api import Cell, Cost, Problem, Scalar, Workload, default_scale

from ...partial.rows import seen_by, softmax_rows
from ...partial.widths import one_width
from ..library.sdpa import SdpaSoftmax
from ..reference import softmax_attention
from ..work import cost


class DifferentialSoftmax(SdpaSoftmax):
    """(softmax(q₁ k₁ᵀ / √(D/2)) - λ softmax(q₂ k₂ᵀ / √(D/2))) v, Ye et al. 2024, section 2.1, by torch's fused kernels.

    q₁ and q₂ are the halves of q, as k₁ and k₂ are of k. λ = exp(a·b) - exp(c·d) + 0.8 - 0.6 exp(-0.3 layer) for all heads,
    the first layer being 0; a, b, c and d [D/2] are learned, and drawn N(0, 0.01). The norm of each head, and the
    factor after it, are not part of the attention. Raises ValueError where layer < 0.
    """

    paper = "arXiv:2410.05258"
    is_softmax = False

    def __init__(self, problem: Problem, layer: int = 0) -> None:
        super().__init__(problem)
        _refuse_bad_layer(layer)
        self.scale, self.first = default_scale(_half(problem)), 0.8 - 0.6 * math.exp(-0.3 * layer)
        self.weights = nn.Parameter((0.1 * torch.randn(4, problem.D // 2)).to(getattr(torch, problem.dtype)))

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse heads that cannot be halved."""
        return f"queries and keys are halved: D={cell.problem.D} must be even" if cell.problem.D % 2 else None

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:  # noqa: ARG003
        """Return 1: it has no structure along the sequence."""
        return 1

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:  # noqa: ARG003
        """Say that it does not: halves are padded to the width that the fused kernel takes."""
        return False

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count both maps, and the padding of their halves. Raises TypeError or ValueError on bad parameters."""
        _refuse_bad_layer(**params)  # type: ignore[arg-type]
        half, plain = _half(problem), cost(problem, workload, executed=0)
        wide = half.model_copy(update={"D": max(half.D, half.M), "M": max(half.D, half.M)})
        exact = 2 * cost(half, workload, executed=0).exact_flops
        executed = exact if workload.decodes else 2 * super().cost(wide, {}, workload).executed_flops
        return plain.model_copy(update={"exact_flops": exact, "executed_flops": executed})

    def mixing(self) -> Tensor:
        """Return λ."""
        a, b, c, d = self.weights.unbind()
        mixing: Tensor = (a * b).sum().exp() - (c * d).sum().exp() + self.first
        return mixing

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend twice."""
        maps = []
        for each in zip(q.chunk(2, -1), k.chunk(2, -1), strict=True):
            # a single query is no work that a fused kernel would save
            inputs = one_width(*each, v) if q.shape[2] > 1 else (*each, v)
            maps.append(super().attend(*inputs, causal=causal, key_mask=key_mask)[..., : v.shape[3]])
        return maps[0] - self.mixing() * maps[1]

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute all N × N scores of both maps."""
        (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
        first = softmax_attention(q1, k1, v, causal=self.causal, key_mask=key_mask)
        return first - self.mixing() * softmax_attention(q2, k2, v, causal=self.causal, key_mask=key_mask)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute both scores of the queries `at` with all keys; key_mask bool [N]."""
        seen = seen_by(at, len(k), causal=self.causal, key_mask=key_mask)
        (q1, q2), (k1, k2) = q[at].chunk(2, -1), k.chunk(2, -1)
        return softmax_rows(q1, k1, v, self.scale, seen) - self.mixing() * softmax_rows(q2, k2, v, self.scale, seen)


def _half(problem: Problem) -> Problem:
    return problem.model_copy(update={"D": max(1, problem.D // 2)})


def _refuse_bad_layer(layer: int = 0) -> None:
    if isinstance(layer, bool) or not isinstance(layer, int) or layer < 0:
        raise ValueError(f"layer={layer!r}: must be a whole number, 0 or more")
