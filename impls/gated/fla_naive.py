"""Gated linear attention by `naive_chunk_simple_gla` of flash-linear-attention, in plain torch on any device.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from torch import Tensor

from attnbench.api import Problem, Tier

from .lightning import Lightning
from .mamba2 import Mamba2
from .packages import OfPackage
from .retnet import RetNet


class FlaNaive(OfPackage):
    """`naive_chunk_simple_gla` of flash-linear-attention: chunk after chunk of 64 tokens, in float32, under plain autograd.

    It takes one decay for each token; the package has no such form for decays by row.
    """

    tier = Tier.LIBRARY
    states_again = False

    def __init__(self, problem: Problem, *args: object) -> None:
        from fla.ops.simple_gla.naive import naive_chunk_simple_gla

        super().__init__(problem, *args)  # type: ignore[arg-type]
        self.operator = naive_chunk_simple_gla

    def forward(self, *inputs: Tensor) -> Tensor:
        """Attend: each [B, H, N, ·] in the memory order [B, N, H, ·] -> [B, H, N, M]."""
        t = self.terms(*inputs)
        q, k, v = (x.transpose(1, 2) for x in (t.q, t.k, t.v))
        log_decay = t.log_decay.expand(q.shape[0], -1, q.shape[1], -1).squeeze(-1).transpose(1, 2)
        o: Tensor
        o, _ = self.operator(q, k, v, log_decay, scale=self.scale)
        return o.transpose(1, 2).to(t.v.dtype)


class FlaNaiveRetNet(FlaNaive, RetNet):
    """RetNet by `naive_chunk_simple_gla` of flash-linear-attention."""

    method = RetNet

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)


class FlaNaiveLightning(FlaNaive, Lightning):
    """Lightning attention by `naive_chunk_simple_gla` of flash-linear-attention."""

    method = Lightning

    def __init__(self, problem: Problem, slopes: str = "minimax", layer: int = 0, layers: int = 1) -> None:
        super().__init__(problem, slopes, layer, layers)


class FlaNaiveMamba2(FlaNaive, Mamba2):
    """Mamba-2 by `naive_chunk_simple_gla` of flash-linear-attention."""

    method = Mamba2

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
