"""The gated attention unit of Transformer-VQ, without its projections.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload

from ..decoding import VQState
from .blockwise import BlockwiseVQ


class GatedVQ(BlockwiseVQ):
    """o = (W silu(v)) ∘ silu(g), with W the weights of `vq.blockwise`: called with (q, k, v, g), g [B, H, N, M].

    Hua et al. 2022, eq. 6, with softmax weights as in Lingle 2023, section 3.1; same cost as `vq.blockwise`. The paper has one
    head, H = 1, of wide values; here any H. Projections are not part of it.
    """

    weighs = False

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes, those of the gate too. Raises TypeError or ValueError on bad parameters."""
        p, cost = problem, super().cost(problem, params, workload)
        gate = p.B * p.H * (1 if workload is Workload.DECODE else p.N) * p.M * p.dtype.bytes
        times = 3 if workload is Workload.FORWARD_BACKWARD else 1
        return cost.model_copy(update={"traffic_bytes": cost.traffic_bytes + times * gate})

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and g, as wide as v."""
        return *super().projections(problem), Projection("gate", problem.H, problem.M)

    # one tensor more than attention has
    def forward(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, choices: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], g [B, H, N, M], codes int64 [B, K, N] or None -> [B, H, N, M].

        Differentiable once.
        """
        return _gated(super().forward(q, k, F.silu(v), choices), g)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, choices: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Compute the dense definition, with the gradients of the paper."""
        return super().reference(q, k, v * v.sigmoid(), choices) * (g * g.sigmoid())

    def rows(  # type: ignore[override]
        self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, choices: Tensor | None = None
    ) -> Tensor:
        """Compute the dense definition for the queries `at`, with codes [N]."""
        return super().rows(head, at, q, k, v * v.sigmoid(), choices) * (g * g.sigmoid())[at]

    def exact(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:  # type: ignore[override]
        """The unit over the keys as they are."""
        return _gated(super().exact(q, k, F.silu(v)), g)

    def prefill(  # type: ignore[override]
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, *, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, VQState]:
        """Attend to the prompt like `vq.blockwise`, gated."""
        o, state = super().prefill(q, k, F.silu(v), capacity=capacity, choices=choices)
        return _gated(o, g), state

    def step(  # type: ignore[override]
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, *, state: VQState, choices: Tensor | None = None
    ) -> tuple[Tensor, VQState]:
        """Attend one token like `vq.blockwise`, gated."""
        o, state = super().step(q, k, F.silu(v), state=state, choices=choices)
        return _gated(o, g), state

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend to more tokens at once like `vq.blockwise`, gated."""
        q, k, v, g = inputs
        o, state = super().extend(q, k, F.silu(v), state=state)
        return _gated(o, g), state


def _gated(o: Tensor, g: Tensor) -> Tensor:
    """Gate the output. Raises ValueError unless each value has its own gate: broadcasting would be another function."""
    if g.shape != o.shape:
        raise ValueError(f"g {list(g.shape)}: must have the shape of the output, {list(o.shape)}")
    return o * F.silu(g)
