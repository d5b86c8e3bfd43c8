"""Softmax attention as models of transformers call it, by their functions `sdpa` and `eager`.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cost, Layout, Problem, Scalar, State, Tier, Workload

from ..exact import ExactSoftmax
from ..work import cost, fused_flops, refuse_parameters, square_flops


class TransformersSdpa(ExactSoftmax):
    """`sdpa_attention_forward` of transformers, around torch's own; in a whole model, the model's own `sdpa`.

    Vaswani et al. 2017, eq. 1. Decodes by a cache that grows by concatenation, as theirs does.
    """

    paper = "arXiv:1706.03762"
    tier = Tier.LIBRARY
    layout = Layout.BNHD  # projections give heads innermost
    decodes = appends = True
    requires = ("transformers>=5.23",)
    in_models: ClassVar[str] = "sdpa"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        groups = problem.H // problem.kv_heads
        self._attend = self._function()
        # what their function asks of the module that calls it
        self._module: Any = SimpleNamespace(num_key_value_groups=groups, is_causal=problem.causal, training=False)

    @staticmethod
    def _function() -> Callable[..., tuple[Tensor, object]]:
        found: Callable[..., tuple[Tensor, object]] = import_module(
            "transformers.integrations.sdpa_attention"
        ).sdpa_attention_forward
        return found

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips what a causal call hides. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable."""
        return self._called(q, k, v, self._mask(q))

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its keys and values."""
        o = self(q, k, v) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        return o, self.state_after(q, k, v, capacity=capacity)

    def state_after(self, *inputs: Tensor, capacity: int) -> State:  # noqa: ARG002 - the cache grows
        """Keep the keys and values of a prompt, without attending to it."""
        _, k, v = inputs
        return tuple(x.detach().clone(memory_format=torch.contiguous_format) for x in (k, v))

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Concatenate one key and value, and attend to all of them."""
        keys, values = (torch.cat([old, new.detach()], dim=2) for old, new in zip(state, (k, v), strict=True))
        return self._called(q, keys, values, None), (keys, values)

    def _mask(self, q: Tensor) -> Tensor | None:  # noqa: ARG002 - their function takes the flag of the module
        return None

    def _called(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        o, _ = self._attend(self._module, q, k, v, mask, scaling=self.scale)
        return o.transpose(1, 2)


class TransformersEager(TransformersSdpa):
    """`eager_attention_forward` of transformers, with all scores in memory; in a whole model, the model's own `eager`.

    Vaswani et al. 2017, eq. 1. Keys and values are repeated for the heads of q that share them; the softmax is in float32.
    """

    in_models: ClassVar[str] = "eager"
    dtypes = UP_TO_FLOAT32  # the softmax of float64 scores would be one of float32

    @staticmethod
    def _function() -> Callable[..., tuple[Tensor, object]]:
        found: Callable[..., tuple[Tensor, object]] = import_module(
            "transformers.models.llama.modeling_llama"
        ).eager_attention_forward
        return found

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost with the full square executed, causal or not. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=square_flops(problem, workload, backward_products=4))

    def _mask(self, q: Tensor) -> Tensor | None:
        return _later(q.shape[2], q.dtype, q.device) if self.causal else None


@lru_cache(maxsize=1)
def _later(N: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the mask that a model makes once for all its layers: 0, or the least number where the key is later."""
    low = torch.finfo(dtype).min
    return torch.full((N, N), low, dtype=dtype, device=device).triu_(1)[None, None]
