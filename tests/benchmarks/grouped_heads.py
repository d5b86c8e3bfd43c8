"""Attentions that repeat grouped heads of keys and values before they attend: rivals for `grouped_heads.yaml` beside this file.

B batch, H heads of q, N tokens, M value width.
"""

from typing import Any, ClassVar

from attnbench_impls.blocks.eager.moba import MobaAttention
from attnbench_impls.blocks.eager.nsa import NsaAttention
from attnbench_impls.delta.eager.gated_deltanet import GatedDeltaNet
from attnbench_impls.gated.mamba2 import Mamba2
from attnbench_impls.linear.eager.chunked import ChunkedLinear
from attnbench_impls.softmax.library.sdpa import SdpaSoftmax
from attnbench_impls.sparse.chosen.dsa import DeepSeekSparse
from attnbench_impls.sparse.eager.attention import EagerSinkWindow, EagerWindow
from torch import Tensor

from attnbench.api import Attention, DType, Problem, Scalar, Workload


class Repeated(Attention):
    """The method for as many heads of k and v as of q, given each head as often as it serves one. It does not decode."""

    decodes = appends = packs = False
    dtypes: ClassVar[tuple[DType, ...]] = (DType.FLOAT32,)

    def __init__(self, problem: Problem, **params: Any) -> None:
        whole = problem.model_copy(update={"kv_heads": problem.H})
        super().__init__(whole, **params)
        self.heads = [each.heads for each in self.projections(whole)]

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> None:
        """Refuse what the method itself refuses."""
        cls(problem, **params)

    def choose(self, *inputs: Tensor) -> Tensor | None:
        """Choose as the method does for the repeated heads."""
        return super().choose(*self.repeated(inputs))

    def forward(self, *inputs: Tensor, **given: Any) -> Tensor:
        """Attend: grouped inputs [B, ·, N, ·] -> [B, H, N, M]."""
        o: Tensor = super().forward(*self.repeated(inputs), **given)
        return o

    def reference(self, *inputs: Tensor, **given: Any) -> Tensor:
        """Attend by the method's definition."""
        return super().reference(*self.repeated(inputs), **given)

    def repeated(self, inputs: tuple[Tensor, ...]) -> list[Tensor]:
        """Copy each head as often as there are heads for it."""
        return [x.repeat_interleave(heads // x.shape[1], 1) for x, heads in zip(inputs, self.heads, strict=True)]


def repeated(kind: type[Attention]) -> type[Attention]:
    """The class of a method whose heads are repeated."""
    return type(f"Repeated{kind.__name__}", (Repeated, kind), {"__doc__": f"Of {kind.__name__}.", "__module__": __name__})


RepeatedSdpa = repeated(SdpaSoftmax)
RepeatedLinear = repeated(ChunkedLinear)
RepeatedMamba2 = repeated(Mamba2)
RepeatedGatedDeltaNet = repeated(GatedDeltaNet)
RepeatedWindow = repeated(EagerWindow)
RepeatedSinkWindow = repeated(EagerSinkWindow)
RepeatedDsa = repeated(DeepSeekSparse)
RepeatedMoba = repeated(MobaAttention)
RepeatedNsa = repeated(NsaAttention)
