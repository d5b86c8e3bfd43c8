"""Linear attention without a mask: two products through one D × M state.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Causality, Cell, Cost, Problem, Scalar, Workload, dense_flops, io_bytes

from .full_product import linear_attention_by_state
from .parameters import refuse_bad_eps
from .reference import linear_attention
from .segments import ROWS, arithmetic, width


class FullLinear(Attention):
    """Linear attention o_i = φ(q_i)ᵀ S / (φ(q_i)ᵀ z + eps) over all keys, in O(N D M).

    Paper: Katharopoulos et al. 2020, eq. 5-6; φ(x) = elu(x) + 1 is their eq. 7. No 1/√D. Raises ValueError where eps < 0.
    """

    paper = "arXiv:2006.16236"
    causality = Causality.NONE

    def __init__(self, problem: Problem, eps: float = 1e-6) -> None:
        super().__init__(problem)
        refuse_bad_eps(eps)
        self.eps = eps

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Only the form without a mask."""
        return "every query sees every key; linear.chunked does the causal form" if cell.problem.causal else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes. The peak is that of a CPU; a GPU walks in larger segments.

        Raises TypeError or ValueError on bad parameters.
        """
        cls(problem, **params)  # type: ignore[arg-type]
        p, wide, trains = problem, width(problem.M), workload is Workload.FORWARD_BACKWARD
        passes = 3.0 if trains else 1.0
        queries, keys = p.B * p.H * p.N, p.B * p.kv_heads * p.N
        executed = 2.0 * p.D * wide * (queries + keys)
        if trains:
            executed += 2.0 * p.D * (2 * wide * queries + (wide + p.M) * keys)
        return Cost(
            nominal_flops=passes * dense_flops(p),
            exact_flops=passes * 2.0 * p.D * p.M * (queries + keys),
            executed_flops=executed,
            traffic_bytes=io_bytes(p, workload),
            peak_bytes=_peak(p, trains),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        B, H, N, D = q.shape
        # heads of q that share a head of k become more queries of one product: a view, nothing is repeated
        o = linear_attention_by_state(q.reshape(B * k.shape[1], -1, D), k.flatten(0, 1), v.flatten(0, 1), self.eps)
        return o.view(B, H, N, v.shape[-1])

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The quadratic form of the same definition, with the same eps."""
        return linear_attention(q, k, v, causal=False, eps=self.eps)


def _peak(p: Problem, trains: bool) -> float:
    """Output, the state, one segment's scratch and, in the backward, denominators, dq and then dk and dv.

    The larger of two moments: dL/d[numerator | denominator] of a segment of queries, or the last segment of keys.
    """
    size, queries, keys = arithmetic(getattr(torch, p.dtype)).itemsize, p.B * p.H * p.N, p.B * p.kv_heads * p.N
    wide, state = width(p.M), p.B * p.kv_heads * p.D * width(p.M) * size
    if not trains:
        return float(queries * p.M * p.dtype.bytes + min(ROWS, queries) * (p.D + max(p.D, wide)) * size + state)
    kept = queries * ((p.D + p.M) * p.dtype.bytes + size) + 2 * state
    at_queries = min(ROWS, queries) * (wide + max(2 * p.D, p.M)) * size
    at_keys = keys * (p.D + p.M) * p.dtype.bytes + min(ROWS, keys) * (2 * p.D + wide) * size
    return float(kept + max(at_queries, at_keys))
