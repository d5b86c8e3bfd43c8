"""Nyström attention of the package nystrom-attention (lucidrains).

B batch, H heads, N tokens, S landmarks, D query/key width, M value width, T tokens of a convolution. The package's
order is [B, N, H · D].
"""

from typing import Any

import torch
from torch import Tensor, nn

from attnbench.api import (
    Attention,
    Causality,
    Cell,
    Cost,
    DType,
    Layout,
    Problem,
    Scalar,
    Tier,
    Workload,
    io_bytes,
    nominal_flops,
)

from .carrier import Carrier, carried
from .options import Options
from .reference import convolve, nystrom_attention


class PackageNystrom(Attention):
    """`NystromAttention` of nystrom-attention without its two linear layers: what it computes from q, k and v.

    Xiong et al. 2021, algorithm 1, but the first iterate of the pseudo-inverse is divided by the largest norms of all heads and
    samples, so that one sample influences another. The package's own forward runs; its layer to_qkv is replaced by the given
    tensors, and to_out by the identity. Parameters are those of landmark.nystrom; the package's own defaults are 256 landmarks
    and a convolution over 33 tokens. Raises ValueError on bad parameters.
    """

    paper = "arXiv:2102.03902"
    tier = Tier.LIBRARY
    causality = Causality.NONE
    independent = False
    layout = Layout.BNHD
    requires = ("nystrom-attention>=0.0.14",)
    because = "a landmark is a mean over a segment, and its inverse mixes all segments"
    grouped = False
    dtypes = (DType.FLOAT64, DType.FLOAT32)  # its identity matrix is float32, which products in 16 bits refuse

    def __init__(self, problem: Problem, landmarks: int = 64, iterations: int = 6, convolution_kernel: int = 0) -> None:
        from nystrom_attention import NystromAttention

        super().__init__(problem)
        p, length = problem, convolution_kernel
        self.options = Options(landmarks, iterations, length)
        sizes = {"dim_head": p.D, "heads": p.H, "num_landmarks": landmarks, "pinv_iterations": iterations}
        residual: dict[str, Any] = {"residual": length > 0, "residual_conv_kernel": length or 1}
        # the width 1 makes its linear layers small; they are replaced below
        self.attention: Any = NystromAttention(1, **sizes, **residual)
        self.attention.to_qkv = self._given = Carrier()
        self.attention.to_out = nn.Identity()
        self.to(getattr(torch, p.dtype))

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse lengths for which the package makes landmarks of zeros."""
        return _ragged(cell.problem.N, cell.params.get("landmarks", 64))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes: the queries' long softmax meets the inverse before the values, 2 N S² more than needed.

        Raises TypeError or ValueError on bad parameters.
        """
        p, options, heads = problem, Options(**params), problem.B * problem.H  # type: ignore[arg-type]
        passes, S = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0, options.segments(p.N)
        exact = heads * (4.0 * p.N * S * (p.D + p.M) + 2.0 * S * S * (p.D + p.M) + options.iterations * 8.0 * S**3)
        weights = p.H * options.convolution_kernel * p.dtype.bytes
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=passes * exact,
            executed_flops=passes * (exact + heads * 2.0 * S * S * (p.N - p.M)),
            traffic_bytes=io_bytes(p, workload) + passes * weights,
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], in the memory order [B, N, H, M]."""
        rows_BNW = tuple(x.transpose(1, 2).flatten(2) for x in (q, k, v))
        with carried(self._given, rows_BNW):
            # the package reads only the shape of its argument
            o_BNW: Tensor = self.attention(rows_BNW[0])
        o: Tensor = o_BNW.unflatten(2, (q.shape[1], -1)).transpose(1, 2)
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the product of the three matrices and v, with one norm for all heads and samples."""
        o = nystrom_attention(q, k, v, self.options.landmarks, self.options.iterations, pooled=True)
        return o + convolve(v, self.attention.res_conv.weight[:, 0, :, 0]) if self.options.convolution_kernel else o


def _ragged(N: int, landmarks: Scalar) -> str | None:
    """Refuse a ragged length: the package pads it before its linear layers, which are replaced here."""
    if isinstance(landmarks, int) and landmarks > 0 and N % landmarks:
        return f"it pads only the input of its projections to whole segments: N={N} must be a multiple of landmarks={landmarks}"
    return None
