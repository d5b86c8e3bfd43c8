"""The delta family by the naive chunked functions of flash-linear-attention, in plain torch on any device.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cell, Cost, DType, Layout, Problem, Scalar, Tier, Workload

from ..cost import cost_of_package
from ..eager.deltanet import DeltaNet
from ..eager.gated_deltanet import GatedDeltaNet
from ..eager.kda import KimiDelta
from ..eager.rwkv7 import Rwkv7
from ..family import DeltaFamily


class FlaNaive(DeltaFamily):
    """A naive chunked function of flash-linear-attention, whose triangular systems are solved row by row.

    N is padded with zeros to whole chunks inside the timed call, as users of the function must do. Queries are scaled there too
    where the function takes no scale.
    """

    tier = Tier.LIBRARY
    decodes = False
    grouped = False
    requires = ("fla-core>=0.6", "triton>=3.3")
    function: ClassVar[tuple[str, str]]
    """Module below fla.ops, and name of the function in it."""
    names: ClassVar[tuple[str, ...]]
    """Names of the function's inputs, in our order."""
    scaled: ClassVar[bool]
    """Whether the function takes a scale; otherwise 1/√D is built in."""
    dtypes: ClassVar[tuple[DType, ...]] = (DType.FLOAT32,)  # others it converts to float32, and does not return as they were

    def __init__(self, problem: Problem, chunk: int = 64, scale: float | None = None) -> None:
        super().__init__(problem, chunk, **({} if scale is None else {"scale": scale}))
        module, name = self.function
        self.attend: Callable[..., Any] = getattr(import_module(f"fla.ops.{module}"), name)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes, the padding of N too. Raises TypeError or ValueError on bad parameters."""
        L = cls._plain(problem, **params).chunk  # type: ignore[arg-type]
        padded = -(-problem.N // L) * L
        return cost_of_package(problem, cls.work, workload, L, tokens=padded, inverse=1, training=3)

    @staticmethod
    def _plain(problem: Problem, chunk: int = 64, scale: float | None = None) -> DeltaFamily:
        """Build our own form with these parameters: it raises what the constructor would raise, without the package."""
        return DeltaNet(problem, chunk, scale)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] and gates -> [B, H, N, M]."""
        factor = self.scale * math.sqrt(q.shape[-1])
        if not self.scaled and not math.isclose(factor, 1):
            q = q * factor
        inputs = dict(zip(self.names, (self._theirs(x) for x in (q, k, v, *gates)), strict=True))
        o: Tensor
        o, _ = self.attend(**inputs, chunk_size=self.chunk, **({"scale": self.scale} if self.scaled else {}))
        if self.layout is Layout.BNHD:
            o = o.transpose(1, 2)
        return o[:, :, : q.shape[2]]

    def _theirs(self, x: Tensor) -> Tensor:
        """Pad to whole chunks, in the function's order of dimensions."""
        empty = -x.shape[2] % self.chunk
        if empty:
            x = F.pad(x, (*(0, 0) * (x.dim() - 3), 0, empty))
        return x.transpose(1, 2) if self.layout is Layout.BNHD else x


class FlaNaiveDeltaNet(FlaNaive, DeltaNet):
    """DeltaNet by `delta_rule_chunkwise` of flash-linear-attention."""

    function = ("delta_rule.naive", "delta_rule_chunkwise")
    names = ("q", "k", "v", "beta")
    scaled = False
    dtypes = (DType.FLOAT32, DType.FLOAT64)


class FlaNaiveGatedDeltaNet(FlaNaive, GatedDeltaNet):
    """Gated DeltaNet by `naive_chunk_gated_delta_rule` of flash-linear-attention."""

    layout = Layout.BNHD
    function = ("gated_delta_rule.naive", "naive_chunk_gated_delta_rule")
    names = ("q", "k", "v", "beta", "g")
    scaled = True


class FlaNaiveKimiDelta(FlaNaive, KimiDelta):
    """Kimi Delta Attention by `naive_chunk_kda` of flash-linear-attention.

    Above the diagonal it takes exp of positive differences before it hides them, which is infinite where a chunk loses more
    than 88 nats: its output is right, its gradient is NaN.
    """

    layout = Layout.BNHD
    function = ("kda.naive", "naive_chunk_kda")
    names = ("q", "k", "v", "beta", "g")
    scaled = True

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse training, because the gradient is NaN where a chunk loses more than 88 nats."""
        if cell.workload is Workload.FORWARD_BACKWARD:
            return "it computes exp of hidden pairs, so its gradient is NaN where a chunk loses more than 88 nats"
        return None


class FlaNaiveRwkv7(FlaNaive, Rwkv7):
    """RWKV-7 by `dplr_chunkwise` of flash-linear-attention."""

    function = ("generalized_delta_rule.dplr.naive", "dplr_chunkwise")
    names = ("q", "k", "v", "gk", "alpha", "beta")
    scaled = False
