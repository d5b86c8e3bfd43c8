"""Linear attention by flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from attnbench.api import Cell, Cost, DType, Layout, Problem, Scalar, Tier, Workload, io_bytes, nominal_flops

from ..family import LinearFamily
from ..maps.feature_map import elementwise

EPS = 1e-10
"""What the package adds to the denominator, after scaling; it has no parameter for it."""
_CHUNK = 64
"""Tokens of a chunk."""


class FlaLinear(LinearFamily):
    """A causal operator of flash-linear-attention with its denominator, o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + 1e-10).

    Katharopoulos et al. 2020, eq. 9-12. The operators take no feature map: φ runs before them in plain torch, inside the timed
    call, as users of the package must do. The scale is 1, where the package's default is 1/√D. The package hides keys by
    packing sequences, not by a mask. Raises ValueError on an unknown feature map.
    """

    tier = Tier.TRITON
    layout = Layout.BNHD
    decodes = False
    masks = False
    requires = ("fla-core>=0.6", "triton>=3.3")
    devices = ("cuda",)
    causal_only = True
    grouped = False
    dtypes = (DType.FLOAT32, DType.BFLOAT16)  # its denominators in float16 pass 65504 at a thousand tokens
    tf32 = True
    operator: ClassVar[str]
    """Name of the operator in fla.ops.linear_attn."""
    tensor_cores: ClassVar[bool] = True

    def __init__(self, problem: Problem, feature_map: str = "elu_plus_one") -> None:
        from fla.ops import linear_attn

        super().__init__(problem, feature_map=elementwise(feature_map), eps=EPS)
        self.attend: Callable[..., Any] = getattr(linear_attn, self.operator)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse odd widths in bfloat16."""
        p = cell.problem
        if p.dtype is DType.BFLOAT16 and cls.tensor_cores and (p.D % 2 or p.M % 2):
            return f"its backward in bfloat16 needs even widths, not D={p.D} and M={p.M}"
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes according to the package's source, with whole tiles of a chunk's tokens.

        The chunked kernels compute their states again in the backward. The recurrent one adds to one state and reads it, in the
        backward to two, which it reads three times. Raises TypeError or ValueError on bad parameters.
        """
        _parameters(**params)  # type: ignore[arg-type]
        p, trains, rows = problem, workload is Workload.FORWARD_BACKWARD, problem.B * problem.H * problem.N
        products = (14.0 if trains else 4.0) * p.D * p.M
        if cls.tensor_cores:
            products += 2.0 * _CHUNK * (p.D + p.M + trains * (3 * p.D + 2 * p.M))
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=rows * (12.0 if trains else 4.0) * p.D * p.M,
            executed_flops=rows * products,
            traffic_bytes=io_bytes(p, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], in the memory order [B, N, H, ·]."""
        fq, fk = self.phi(q), self.phi(k)
        o: Tensor
        o, _ = self.attend(fq.transpose(1, 2), fk.transpose(1, 2), v.transpose(1, 2), scale=1.0, normalize=True)
        return o.transpose(1, 2)


class FlaChunk(FlaLinear):
    """`chunk_linear_attn` of flash-linear-attention: the state before each chunk of 64 tokens, then all chunks at once."""

    operator = "chunk_linear_attn"


class FlaFusedChunk(FlaLinear):
    """`fused_chunk_linear_attn` of flash-linear-attention: one kernel walks over the chunks with the state on the chip."""

    operator = "fused_chunk_linear_attn"


class FlaRecurrent(FlaLinear):
    """`fused_recurrent_linear_attn` of flash-linear-attention: token by token, without tensor cores, in float32."""

    operator = "fused_recurrent_linear_attn"
    tensor_cores = False
    tf32 = False


def _parameters(feature_map: str = "elu_plus_one") -> None:
    """Raise what the constructor would raise, without importing the package."""
    elementwise(feature_map)
