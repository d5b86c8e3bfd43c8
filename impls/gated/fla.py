"""Gated linear attention of the package flash-linear-attention, whose operators are the distribution fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from typing import Any

from torch import Tensor

from attnbench.api import Cell, Cost, DType, Problem, Tier, Workload

from ..recurrence.hopper import why_no_backward
from .family import GatedFamily, Terms
from .fla_cost import cost_of_kernels
from .gla import GLA
from .hgrn2 import HGRN2
from .lightning import Lightning
from .mamba2 import Mamba2
from .packages import OfPackage
from .retnet import RetNet


class FlaKernels(OfPackage):
    """An operator of flash-linear-attention: the state before each chunk of 64 tokens, then all chunks at once.

    What the method makes of its inputs is made before it in plain torch, inside the timed call, as its users must do it. The
    scale is always passed on: the package's default is 1/√D.
    """

    tier = Tier.TRITON

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """CUDA devices, and what its kernels can add up."""
        if cell.device_kind != "cuda":
            return "flash-linear-attention's kernels run on CUDA devices"
        return super().why_not(cell) or _why_not_this_dtype(cell)

    @classmethod
    def cost_of(cls, problem: Problem, method: GatedFamily, workload: Workload) -> Cost:
        """Read off the package's source, not measured."""
        return cost_of_kernels(problem, method.extra, workload)

    def forward(self, *inputs: Tensor) -> Tensor:
        """[B, H, N, ·] in the memory order [B, N, H, ·] -> [B, H, N, M]."""
        t = self.terms(*inputs)
        o: Tensor
        o, _ = self.operate(t, [x.transpose(1, 2) for x in (t.q, t.k, t.v)])
        return o.transpose(1, 2)

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ANN401 - the package has no types
        """Call the operator with q, k, v [B, N, H, ·]; gives the output [B, N, H, M] and the last state."""
        raise NotImplementedError


def _why_not_this_dtype(cell: Cell) -> str | None:
    p = cell.problem
    if p.dtype is DType.FLOAT32 and cell.matmul_precision == "highest":
        return "its products of float32 are TF32; set matmul_precision: high to compare it with others that are"
    if p.dtype is DType.BFLOAT16 and (p.D % 2 or p.M % 2):
        return f"its backward in bfloat16 needs even widths, not D={p.D} and M={p.M}"
    return None


class FlaRetNet(FlaKernels, RetNet):
    """`chunk_retention` of flash-linear-attention, which has the decays of RetNet built in."""

    method = RetNet

    def __init__(self, problem: Problem) -> None:
        from fla.ops.retention import chunk_retention

        super().__init__(problem)
        self.operator = chunk_retention

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ARG002, ANN401
        """Decays are its own."""
        return self.operator(*qkv, scale=self.scale)


class FlaLightning(FlaKernels, Lightning):
    """`chunk_simple_gla` of flash-linear-attention with fixed decays, which is what its `chunk_lightning_attn` calls.

    That one knows the slopes `fla` only.
    """

    method = Lightning

    def __init__(self, problem: Problem, slopes: str = "minimax", layer: int = 0, layers: int = 1) -> None:
        from fla.ops.simple_gla import chunk_simple_gla

        super().__init__(problem, slopes, layer, layers)
        self.operator = chunk_simple_gla

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ANN401
        """One log decay for each head."""
        return self.operator(*qkv, g_gamma=t.log_decay.flatten(), scale=self.scale)


class FlaMamba2(FlaKernels, Mamba2):
    """`chunk_simple_gla` of flash-linear-attention with the decays and step sizes of Mamba-2."""

    method = Mamba2

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """And what the package refuses on Hopper."""
        return super().why_not(cell) or why_no_backward(cell)

    def __init__(self, problem: Problem) -> None:
        from fla.ops.simple_gla import chunk_simple_gla

        super().__init__(problem)
        self.operator = chunk_simple_gla

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ANN401
        """One log decay for each token and head."""
        return self.operator(*qkv, g=t.log_decay.squeeze(-1).transpose(1, 2), scale=self.scale)


class FlaGLA(FlaKernels, GLA):
    """`chunk_gla` of flash-linear-attention."""

    method = GLA

    def __init__(self, problem: Problem) -> None:
        from fla.ops.gla import chunk_gla

        super().__init__(problem)
        self.operator = chunk_gla

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ANN401
        """A log decay for each row of the state."""
        return self.operator(*qkv, g=t.log_decay.transpose(1, 2), scale=self.scale)


class FlaHGRN2(FlaKernels, HGRN2):
    """`chunk_gla` of flash-linear-attention with k = 1 - f, as its HGRN2 calls it, but for the scale 1/√D there."""

    method = HGRN2

    def __init__(self, problem: Problem, lower_bound: float = 0.0) -> None:
        from fla.ops.gla import chunk_gla

        super().__init__(problem, lower_bound)
        self.operator = chunk_gla

    def operate(self, t: Terms, qkv: list[Tensor]) -> Any:  # noqa: ANN401
        """A log decay for each row of the state."""
        return self.operator(*qkv, g=t.log_decay.transpose(1, 2), scale=self.scale)
