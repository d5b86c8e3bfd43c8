"""Linformer of the package linformer-pytorch (tatp22).

B batch, H heads, N tokens, S projected keys, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Causality, Cost, Problem, Scalar, Tier, Workload, default_scale

from ..partial.rows import softmax_rows
from .cost import cost_of_package
from .options import Options
from .reference import attend_to

_SHARING = {"none": "none", "headwise": "headwise", "key_value": "kv", "layerwise": "layerwise"}


class Tatp22Linformer(Attention):
    """The `LinearAttentionHead`s of linformer-pytorch, one after the other, as its `MHAttention` calls them.

    Wang et al. 2020, eq. 7, but each projected key and value has a learned bias: k̄ = E k + b, the same number in all channels.
    What runs is the forward of each head on the given q, k and v, and joining them; the linear layers around it and dropout are
    left out. `sharing` is that of linformer.linformer. Xavier initialisation, as in the package. Raises ValueError on bad
    parameters.
    """

    paper = "arXiv:2006.04768"
    tier = Tier.LIBRARY
    causality = Causality.NONE
    # a learned bias is added to the projected values
    weighs = False
    # the package imports matplotlib, with which it draws
    requires = ("linformer-pytorch>=0.19.3", "matplotlib")
    because = "its flag hides a triangle over the projected keys, each of which mixes all positions"
    grouped = False

    def __init__(self, problem: Problem, k: int = 256, sharing: str = "headwise") -> None:
        super().__init__(problem)
        self.heads = heads_of(problem, Options(k, sharing)).to(getattr(torch, problem.dtype))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        options = Options(**params)  # type: ignore[arg-type]
        S, matrices = options.slots(problem.N), 1 if options.one_matrix else 2
        heads = problem.H if options.sharing == "none" else 1
        # a bias for each projected key
        return cost_of_package(problem, workload, S, heads * matrices * S * (problem.N + 1))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M]."""
        # not by an index, whose backward fills a tensor of all heads with zeros for each head
        apart = zip(self.heads, q.unbind(1), k.unbind(1), v.unbind(1), strict=True)
        return torch.stack([head(*tensors) for head, *tensors in apart], dim=1)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute softmax(q (E k + b)ᵀ / √D) (F v + c) with the package's parameters."""
        keys, values = (torch.stack(x, dim=1) for x in zip(*self._projected(k, v), strict=True))
        return attend_to(q, keys, values)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute softmax of the queries `at` over all projected keys of the head."""
        own = self._typed_heads()[head]
        return softmax_rows(q[at], _affine(own.E, k), _affine(own.F, v), default_scale(self.problem))

    def _projected(self, k: Tensor, v: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Compute k̄ [B, S, D] and v̄ [B, S, M] of each head."""
        return [(_affine(head.E, k[:, h]), _affine(head.F, v[:, h])) for h, head in enumerate(self._typed_heads())]

    def _typed_heads(self) -> list[Any]:
        return list(self.heads)


def heads_of(problem: Problem, options: Options, *, causal: bool = False) -> nn.ModuleList:
    """Build the attention heads of a `Linformer` of one layer; `causal` is the package's own flag, which leaks the future."""
    from linformer_pytorch import Linformer
    from linformer_pytorch.linformer_pytorch import LinearAttentionHead

    p = problem
    model = Linformer(
        input_size=p.N,
        channels=p.H * p.D,
        dim_k=options.slots(p.N),
        dim_d=p.D,
        nhead=p.H,
        depth=1,
        dropout=0.0,
        parameter_sharing=_SHARING[options.sharing],
        include_ff=False,
        causal=causal,
    )
    return nn.ModuleList(module for module in model.modules() if isinstance(module, LinearAttentionHead))


def _affine(layer: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - nn.Linear over tokens
    """Apply a linear layer along tokens: [..., N, C] -> [..., S, C]."""
    o: Tensor = layer.weight @ x + layer.bias[:, None]
    return o
