"""Sparse attention by our own Triton kernels: tiles of bands on tensor cores, forward and backward.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Problem, Scalar, Tier, Workload

from ...partial.heads import refuse_unfit
from ..family import SparseAttention
from ..patterns.factorised import Fixed, Strided
from ..patterns.neighbours import Atrous, Local, Longformer, Window
from ..patterns.pattern import Pattern
from .cost import executed_flops
from .tables import described
from .tuning import WIDEST


class TritonSparse(SparseAttention):
    """Softmax over the bands of a pattern by Triton kernels, in blocks of queries and, in the backward, also of keys.

    Tiles outside of the bands are never visited. Exact at any N; keeps the output and one number a row. Products of float32
    follow torch's float32 matmul precision; sums are float32, but results that several launches add up are rounded to the dtype
    in between. Differentiable once, same bits in every run, no copies of inputs whose last dimension is dense.
    """

    tier = Tier.TRITON
    requires = ("triton>=3.4",)
    devices = ("cuda",)
    dtypes = UP_TO_FLOAT32
    widths = (1, WIDEST)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        # needs triton, which if missing should be noticed here and not in the first call
        from . import product  # noqa: F401 - it defines the operator

        super().__init__(problem, **params)
        self.described = described(self.pattern)
        # the operator itself: what torch.library makes of a function cannot be copied, and methods are
        self.attend = torch.ops.attnbench.sparse_attention_triton.default

    @classmethod
    def executed_flops(cls, problem: Problem, pattern: Pattern, workload: Workload) -> float:
        """Count FLOPs of whole tiles; needs no triton."""
        return executed_flops(problem, pattern, trains=workload is Workload.FORWARD_BACKWARD)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N.

        Raises ValueError on other shapes and dtypes, or where devices differ.
        """
        refuse_unfit(q, k, v, self.dtypes)
        if (q.shape[1], k.shape[1]) != (of := (self.problem.H, self.problem.kv_heads)):
            raise ValueError(f"{q.shape[1]} heads of q and {k.shape[1]} of k: must be {of[0]} and {of[1]}")
        o: Tensor = self.attend(q, k, v, self.described, self.causal)[0]
        return o

    def prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend by the kernels on a GPU; elsewhere, and for no tokens, like the rest of the family."""
        return self(q, k, v) if q.is_cuda and q.shape[2] else super().prompt(q, k, v)


class TritonStrided(TritonSparse):
    """Child et al. 2019, section 4.3: near tokens and every stride-th, by Triton; merged in two launches."""

    pattern_type = Strided


class TritonFixed(TritonSparse):
    """Child et al. 2019, section 4.3: own blocks and summaries of others, by Triton; one launch for queries."""

    pattern_type = Fixed


class TritonLocal(TritonSparse):
    """The first strided pattern alone, by Triton."""

    pattern_type = Local


class TritonAtrous(TritonSparse):
    """The second strided pattern alone, optionally only near keys, by Triton."""

    pattern_type = Atrous


class TritonWindow(TritonSparse):
    """Beltagy et al. 2020, section 3.1: a sliding window by Triton."""

    paper = "arXiv:2004.05150"
    pattern_type = Window
    windowed = "sparse.window"


class TritonLongformer(TritonSparse):
    """Beltagy et al. 2020, section 3.1: a dilated window and global tokens by Triton; programs share long rows and columns."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer
