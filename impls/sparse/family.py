"""What all sparse attentions share: the pattern, the dense definition, and decoding from what the pattern still needs.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Workload, default_scale, io_bytes, nominal_flops

from .pattern import Pattern, Shape
from .reference import masked_softmax_attention
from .work import exact_flops


class SparseAttention(Attention):
    """Softmax over the keys that a pattern leaves, scale 1 / √D. Parameters are those of its pattern.

    Raises TypeError or ValueError on bad parameters.
    """

    paper = "arXiv:1904.10509"
    pattern_type: ClassVar[type[Pattern]]

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem)
        self.pattern = self.pattern_type.of(problem, params)
        self.causal, self.scale = problem.causal, default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """The pairs of the definition, and what this implementation makes of them. Raises TypeError or ValueError."""
        pattern = cls.pattern_type.of(problem, params)
        executed, peak = cls.executed_and_peak(problem, pattern, workload)
        return Cost(
            nominal_flops=nominal_flops(problem, workload),
            exact_flops=exact_flops(problem, pattern, workload),
            executed_flops=executed,
            traffic_bytes=io_bytes(problem, workload),
            peak_bytes=peak,
        )

    @classmethod
    @abstractmethod
    def executed_and_peak(cls, problem: Problem, pattern: Pattern, workload: Workload) -> tuple[float, float]:
        """FLOPs that a call over all N tokens executes, and the bytes that it allocates at its peak, output included."""

    def shape(self, N: int) -> Shape:
        """Of a sequence or prompt of N tokens."""
        return Shape(N, self.problem.H, self.causal)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Softmax over the keys that the dense mask leaves; a query that sees none gets 0."""
        return masked_softmax_attention(q, k, v, self.pattern.seen(self.shape(q.shape[2]), q.device))
