"""Gated linear attention by kernels of flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnbench.api import HALF, Cell, Problem, Tier

from ..partial.documents import borders
from ..recurrence.hopper import why_no_backward
from .family import Terms
from .gla import GLA
from .hgrn2 import HGRN2
from .lightning import Lightning
from .mamba2 import Mamba2
from .packages import OfPackage
from .retnet import RetNet


class FlaKernels(OfPackage):
    """A Triton operator of flash-linear-attention: the state before each chunk of 64 tokens, then all chunks at once.

    The method's terms are computed in plain torch inside the timed call, as users of the package must do. The scale is always
    passed on, since the package's default is 1/√D. Documents in one row are one call, which is told where they begin.
    """

    tier = Tier.TRITON
    states_again = True
    devices = ("cuda",)
    tf32 = True
    tunes = True
    operator: Callable[..., Any]
    """The package's function, of q, k, v [B, N, H, ·]; returns the output [B, N, H, M] and the last state."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse odd widths in half precision with the backward."""
        p = cell.problem
        if cell.workload.learns and p.dtype in HALF and (p.D % 2 or p.M % 2):
            return f"its backward in half precision needs even widths, not D={p.D} and M={p.M}"
        return None

    def forward(self, *inputs: Tensor) -> Tensor:
        """Attend: each [B, H, N, ·] in the memory order [B, N, H, ·] -> [B, H, N, M]."""
        return self._operate(inputs)

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:  # noqa: ARG002 - one call attends all
        """Attend all documents in one call: [1, H, N, ·] -> [1, H, N, M]."""
        return self._operate(inputs, cu_seqlens=borders(lengths, inputs[0].device, torch.int64))

    @abstractmethod
    def decays(self, t: Terms) -> dict[str, Tensor]:
        """Return the logarithms of the decays, by the operator's name for them."""

    def _operate(self, inputs: tuple[Tensor, ...], **documents: Tensor) -> Tensor:
        t = self.terms(*inputs)
        q, k, v = (x.transpose(1, 2) for x in (t.q, t.k, t.v))
        o: Tensor
        o, _ = self.operator(q, k, v, **self.decays(t), scale=self.scale, **documents)
        return o.transpose(1, 2)


class FlaRetNet(FlaKernels, RetNet):
    """RetNet by `chunk_retention` of flash-linear-attention, which has RetNet's decays built in."""

    method = RetNet

    def __init__(self, problem: Problem) -> None:
        from fla.ops.retention import chunk_retention

        super().__init__(problem)
        self.operator = chunk_retention

    def decays(self, t: Terms) -> dict[str, Tensor]:  # noqa: ARG002
        """Return nothing: the operator has the decays built in."""
        return {}


class FlaLightning(FlaKernels, Lightning):
    """Lightning attention by `chunk_simple_gla` of flash-linear-attention with fixed decays.

    The package's `chunk_lightning_attn` is the same call, for the slopes `fla` only.
    """

    method = Lightning

    def __init__(self, problem: Problem, slopes: str = "minimax", layer: int = 0, layers: int = 1) -> None:
        from fla.ops.simple_gla import chunk_simple_gla

        super().__init__(problem, slopes, layer, layers)
        self.operator = chunk_simple_gla

    def decays(self, t: Terms) -> dict[str, Tensor]:
        """Return one for each head."""
        return {"g_gamma": t.log_decay.flatten()}


class FlaMamba2(FlaKernels, Mamba2):
    """Mamba-2 by `chunk_simple_gla` of flash-linear-attention, with Mamba-2's decays and step sizes."""

    method = Mamba2

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what all these kernels refuse, and training on Hopper where the package does."""
        return super().why_not(cell) or why_no_backward(cell, float32_states=True)

    def __init__(self, problem: Problem) -> None:
        from fla.ops.simple_gla import chunk_simple_gla

        super().__init__(problem)
        self.operator = chunk_simple_gla

    def decays(self, t: Terms) -> dict[str, Tensor]:
        """Return one for each token and head."""
        return {"g": t.log_decay.squeeze(-1).transpose(1, 2)}


class FlaGLA(FlaKernels, GLA):
    """GLA by `chunk_gla` of flash-linear-attention."""

    method = GLA

    def __init__(self, problem: Problem) -> None:
        from fla.ops.gla import chunk_gla

        super().__init__(problem)
        self.operator = chunk_gla

    def decays(self, t: Terms) -> dict[str, Tensor]:
        """Return one for each row of the state."""
        return {"g": t.log_decay.transpose(1, 2)}


class FlaHGRN2(FlaKernels, HGRN2):
    """HGRN2 by `chunk_gla` of flash-linear-attention with k = 1 - f, but without the scale 1/√D of the package's own layer."""

    method = HGRN2

    def __init__(self, problem: Problem, lower_bound: float = 0.0) -> None:
        from fla.ops.gla import chunk_gla

        super().__init__(problem, lower_bound)
        self.operator = chunk_gla

    def decays(self, t: Terms) -> dict[str, Tensor]:
        """Return one for each row of the state."""
        return {"g": t.log_decay.transpose(1, 2)}
