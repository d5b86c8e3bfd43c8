"""Linear attention by flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnbench.api import Cell, Cost, DType, Layout, Problem, Scalar, Tier, Workload, io_bytes, nominal_flops

from ...partial.documents import borders
from ...partial.rows import seen_by
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
    packing sequences, not by a mask: documents in one row are one call, which is told where they begin. Its kernels choose
    their launches by key, which has neither N nor B in it, and of some H.

    `alone` leaves out what stands around the kernel: o_i = Σ_{j≤i} (q_i·k_j) v_j, without a feature map or a denominator. That
    is less work than the definition of the others, and tells what of the package's time is its kernel's. Raises ValueError on
    an unknown feature map, or on one beside `alone`.
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
    tunes = True
    operator: ClassVar[str]
    """Name of the operator in fla.ops.linear_attn."""
    tensor_cores: ClassVar[bool] = True
    columns: ClassVar[int | None] = None
    """Width of q and k of which a score is rounded, where it is not the whole."""

    def __init__(self, problem: Problem, feature_map: str | None = None, alone: bool = False) -> None:
        from fla.ops import linear_attn

        super().__init__(problem, feature_map=_parameters(feature_map, alone), eps=EPS)
        self.alone = alone
        self.attend: Callable[..., Any] = getattr(linear_attn, self.operator)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse odd widths in bfloat16 with the backward."""
        p = cell.problem
        if cell.workload.learns and p.dtype is DType.BFLOAT16 and cls.tensor_cores and (p.D % 2 or p.M % 2):
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
        return self._operate(q, k, v)

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:  # noqa: ARG002 - one call attends all
        """Attend all documents in one call: [1, H, N, ·] -> [1, H, N, M]."""
        q, k, v = inputs
        return self._operate(q, k, v, cu_seqlens=borders(lengths, q.device, torch.int64))

    def _operate(self, q: Tensor, k: Tensor, v: Tensor, **documents: Tensor) -> Tensor:
        fq, fk = (q, k) if self.alone else (self.phi(q), self.phi(k))
        q, k, v = (x.transpose(1, 2) for x in (fq, fk, v))
        o: Tensor
        o, _ = self.attend(q, k, v, scale=1.0, normalize=not self.alone, **documents)
        return o.transpose(1, 2)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Compute the quadratic form of the same definition."""
        if not self.alone:
            return super().reference(q, k, v, key_mask=key_mask)
        return torch.stack([(a @ b.mT).tril() @ v for a, b in self._parts(q, k)]).sum(0)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute the same for the queries `at`."""
        if not self.alone:
            return super().rows(head, at, q, k, v, key_mask)
        seen = seen_by(at, len(k), causal=True)
        return torch.stack([(a @ b.mT * seen) @ v for a, b in self._parts(q[at], k)]).sum(0)

    def _parts(self, q: Tensor, k: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        width = self.columns or q.shape[-1]
        return zip(q.split(width, -1), k.split(width, -1), strict=True)


class FlaChunk(FlaLinear):
    """`chunk_linear_attn` of flash-linear-attention: the state before each chunk of 64 tokens, then all chunks at once."""

    operator = "chunk_linear_attn"


class FlaFusedChunk(FlaLinear):
    """`fused_chunk_linear_attn` of flash-linear-attention: one kernel walks over the chunks with the state on the chip.

    It rounds the scores of 64 columns of q and k at a time and adds the outputs. `alone`, whose scores have either sign, has to
    be held against a definition that does so too: where two halves cancel, little is left right of a row.
    """

    operator = "fused_chunk_linear_attn"
    columns = 64


class FlaRecurrent(FlaLinear):
    """`fused_recurrent_linear_attn` of flash-linear-attention: token by token, without tensor cores, in float32."""

    operator = "fused_recurrent_linear_attn"
    tensor_cores = False
    tf32 = False


def _parameters(feature_map: str | None = None, alone: bool = False) -> str:
    """Return the feature map, or raise what the constructor raises, without importing the package."""
    if not isinstance(alone, bool):
        raise ValueError(f"alone={alone!r}: must be true or false")
    if alone and feature_map is not None:
        raise ValueError(f"feature_map={feature_map!r}: must be left out where alone is true, which has none")
    return elementwise(feature_map or "elu_plus_one")
