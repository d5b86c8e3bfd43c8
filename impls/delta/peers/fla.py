"""The delta family by kernels of flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnbench.api import HALF, UP_TO_FLOAT32, Cell, Cost, Layout, Problem, Scalar, Tier, Workload

from ...partial.documents import borders
from ...recurrence.hopper import why_no_backward
from ...recurrence.parts import refuse_bad_scale
from ..cost import cost_of_package
from ..eager.deltanet import DeltaNet
from ..eager.gated_deltanet import GatedDeltaNet
from ..eager.kda import KimiDelta
from ..eager.rwkv7 import Rwkv7
from ..family import DeltaFamily


class FlaKernels(DeltaFamily):
    """A chunked Triton operator of flash-linear-attention, with chunks of 64 tokens (RWKV-7: 16) and decays as logarithms.

    The scale is passed on; the package's own default is 1/√D (RWKV-7: 1). Documents in one row are one call, which is told
    where they begin.
    """

    tier = Tier.TRITON
    layout = Layout.BNHD
    decodes = False
    grouped = False
    tunes = True
    requires = ("fla-core>=0.6", "triton>=3.3")
    devices = ("cuda",)
    dtypes = UP_TO_FLOAT32
    widths = (1, 256)
    tf32 = True
    operator: ClassVar[tuple[str, str]]
    """Module below fla.ops, and name of the operator in it."""
    names: ClassVar[tuple[str, ...]]
    """Names of the operator's inputs, in our order."""
    tile: ClassVar[int] = 64
    """Tokens of a chunk."""

    def __init__(self, problem: Problem, scale: float | None = None) -> None:
        super().__init__(problem, **({} if scale is None else {"scale": scale}))  # type: ignore[arg-type]
        module, name = self.operator
        self.attend: Callable[..., Any] = getattr(import_module(f"fla.ops.{module}"), name)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes; the backward computes the states again. Raises TypeError or ValueError on bad parameters."""
        _parameters(**params)  # type: ignore[arg-type]
        return cost_of_package(problem, cls.work, workload, cls.tile, tokens=problem.N, inverse=1 / 3, training=4)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] and gates -> [B, H, N, M], in the memory order [B, N, H, ·]."""
        return self._operate((q, k, v, *gates))

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:  # noqa: ARG002 - one call attends all
        """Attend all documents in one call: [1, H, N, ·] -> [1, H, N, M]."""
        return self._operate(inputs, cu_seqlens=borders(lengths, inputs[0].device, torch.int64))

    def _operate(self, inputs: tuple[Tensor, ...], **documents: Tensor) -> Tensor:
        named = dict(zip(self.names, (x.transpose(1, 2) for x in inputs), strict=True))
        o: Tensor
        o, _ = self.attend(**named, scale=self.scale, **documents)
        return o.transpose(1, 2)


class FlaDeltaNet(FlaKernels, DeltaNet):
    """DeltaNet by `chunk_delta_rule` of flash-linear-attention, which refuses float32."""

    operator = ("delta_rule", "chunk_delta_rule")
    names = ("q", "k", "v", "beta")
    dtypes = HALF


class FlaGatedDeltaNet(FlaKernels, GatedDeltaNet):
    """Gated DeltaNet by `chunk_gated_delta_rule` of flash-linear-attention."""

    operator = ("gated_delta_rule", "chunk_gated_delta_rule")
    names = ("q", "k", "v", "beta", "g")

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse training on Hopper where the package does."""
        return why_no_backward(cell)


class FlaKimiDelta(FlaKernels, KimiDelta):
    """Kimi Delta Attention by `chunk_kda` of flash-linear-attention."""

    operator = ("kda", "chunk_kda")
    names = ("q", "k", "v", "beta", "g")


class FlaRwkv7(FlaKernels, Rwkv7):
    """RWKV-7 by `chunk_rwkv7` of flash-linear-attention, over its DPLR kernels; float32 is refused, since they warn of it."""

    operator = ("rwkv7", "chunk_rwkv7")
    names = ("r", "k", "v", "w", "a", "b")
    tile = 16
    dtypes = HALF


def _parameters(scale: float | None = None) -> None:
    """Raise what the constructor would raise, without importing the package."""
    refuse_bad_scale(1.0 if scale is None else scale)
