"""Sparse attention by Triton kernels of our own: tiles of bands on tensor cores, forward and backward.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Cell, DType, Problem, Scalar, Tier, Workload

from .factorised import Fixed, Strided
from .family import SparseAttention
from .neighbours import Atrous, Local, Longformer, Window
from .pattern import Pattern
from .triton_cost import executed_flops, peak_bytes
from .triton_tables import described
from .triton_tuning import WIDEST


class TritonSparse(SparseAttention):
    """Softmax over the bands of a pattern, walked through by blocks of queries, and of keys in the backward.

    Tiles outside of the bands are never visited. Exact at any N; keeps the output and one number a row. Products of float32 by
    torch's float32 matmul precision; sums are float32, but what several launches add up is rounded to the dtype between them.
    Once differentiable, same bits every run, no copies of inputs whose last dimension is dense.
    """

    tier = Tier.TRITON
    requires = ("triton>=3.4",)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        # needs triton: absent, it should be missed here and not in the first call
        from . import triton_product  # noqa: F401 - it defines the operator

        super().__init__(problem, **params)
        self.described = described(self.pattern)
        # the operator itself: what torch.library makes of a function cannot be copied, and methods are
        self.attend = torch.ops.attnbench.sparse_attention_triton.default

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """CUDA devices, no float64, widths whose tiles fit into a multiprocessor."""
        p = cell.problem
        if cell.device_kind != "cuda":
            return "it runs on CUDA devices"
        if p.dtype is DType.FLOAT64:
            return "its sums are float32"
        if max(p.D, p.M) > WIDEST:
            return f"its tiles hold widths up to {WIDEST}, not D={p.D} and M={p.M}"
        return None

    @classmethod
    def executed_and_peak(cls, problem: Problem, pattern: Pattern, workload: Workload) -> tuple[float, float]:
        """Of whole tiles; output, logsumexp, gradients and scratch. Needs no triton."""
        trains = workload is Workload.FORWARD_BACKWARD
        return executed_flops(problem, pattern, trains=trains), peak_bytes(problem, pattern, trains=trains)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N. Raises ValueError on other shapes."""
        p = self.problem
        if q.shape[1] != p.H or k.shape[1] != p.kv_heads or k.shape[2] != q.shape[2] or v.shape[:3] != k.shape[:3]:
            # a kernel would read beyond them
            shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
            raise ValueError(f"{shapes}: must be [B, {p.H}, N, D], [B, {p.kv_heads}, N, D], [B, {p.kv_heads}, N, M]")
        o: Tensor = self.attend(q, k, v, self.described, self.causal)[0]
        return o

    def prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """By the kernels on a GPU; elsewhere, and of no tokens, as all of the family."""
        return self(q, k, v) if q.is_cuda and q.shape[2] else super().prompt(q, k, v)


class TritonStrided(TritonSparse):
    """What is near, and every stride-th token: two launches where merged."""

    pattern_type = Strided


class TritonFixed(TritonSparse):
    """Own blocks, and the summaries of others, which are read where they lie: one launch of queries."""

    pattern_type = Fixed


class TritonLocal(TritonSparse):
    """Near tokens."""

    pattern_type = Local


class TritonAtrous(TritonSparse):
    """Every stride-th token."""

    pattern_type = Atrous


class TritonWindow(TritonSparse):
    """A sliding window."""

    paper = "arXiv:2004.05150"
    pattern_type = Window


class TritonLongformer(TritonSparse):
    """A dilated window and global tokens, whose long rows and columns are shared out among programs."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer
