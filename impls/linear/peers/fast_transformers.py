"""Linear attention of the package pytorch-fast-transformers, by the authors of the paper.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·].
"""

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, DType, Layout, Problem, Scalar, State, Tier, Workload, io_bytes, nominal_flops

from ..family import LinearFamily
from ..parameters import refuse_bad_eps


class FastTransformersLinear(LinearFamily):
    """`LinearAttention`, `CausalLinearAttention` and `RecurrentLinearAttention` of pytorch-fast-transformers.

    Katharopoulos et al. 2020, eq. 5-6 and 9-12, φ(x) = elu(x) + 1, the package's default and here its only map. What is
    measured is its public modules, with the copies into [B, H, N, ·] that its causal one makes at each call. The two masks that
    they read are built once. It decodes by its own recurrence, its prompt too. Raises ValueError where eps < 0.
    """

    tier = Tier.LIBRARY
    layout = Layout.BNHD
    decodes = True
    masks = True
    requires = ("pytorch-fast-transformers>=0.4",)
    grouped = False

    def __init__(self, problem: Problem, eps: float = 1e-6) -> None:
        from fast_transformers.attention import CausalLinearAttention, LinearAttention
        from fast_transformers.recurrent.attention import RecurrentLinearAttention

        super().__init__(problem, eps=eps)
        attention = CausalLinearAttention if problem.causal else LinearAttention
        self.attention: Any = attention(problem.D, eps=eps)
        self.recurrent: Any = RecurrentLinearAttention(problem.D, eps=eps)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what the package was not built for, and dtypes that it cannot take."""
        p = cell.problem
        if cell.device_kind == "cuda" and p.causal and not cell.workload.decodes and _built_without_cuda():
            return "this pytorch-fast-transformers was built without CUDA: build it again where nvcc and a CUDA torch are"
        return _why_not_this_dtype(p)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes of what the package does. Raises TypeError or ValueError on bad parameters.

        The causal backward sums up the state of k vᵀ again and that of q gᵀ, and reads them three times. A step forms k vᵀ,
        adds it to the state, and reads that.
        """
        _parameters(**params)  # type: ignore[arg-type]
        p, trains, heads = problem, workload is Workload.FORWARD_BACKWARD, problem.B * problem.H
        steps = 1 if workload is Workload.DECODE else p.N
        products = (14.0 if p.causal else 12.0) if trains else 4.0
        state = heads * (p.D * p.M + p.D) * p.dtype.bytes
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=heads * steps * (12.0 if trains else 4.0) * p.D * p.M,
            executed_flops=heads * steps * (products * p.D * p.M + (6.0 if trains else 2.0) * p.D),
            traffic_bytes=io_bytes(p, workload) + (2.0 * steps * state if workload.decodes else 0.0),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], in the memory order [B, N, H, ·]."""
        B, _, N, _ = q.shape
        pairs, keys = _masks(self.problem.causal, B, N, q.device)
        if key_mask is not None:
            keys = type(keys)(key_mask)
        o: Tensor = self.attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), pairs, None, keys)
        return o.transpose(1, 2)

    # its states are its own
    extend = Attention.extend
    state_after = Attention.state_after

    @torch.no_grad()
    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:  # noqa: ARG002 - the state is of one size
        """Attend token by token from empty sums, [b, H, D, M] and [b, H, D], as the package gives a state in no other way."""
        b, H, _, D = q.shape
        out, state = torch.empty_like(v), [q.new_zeros(b, H, D, v.shape[-1]), q.new_zeros(b, H, D)]
        for t in range(q.shape[2]):
            out[:, :, t], state = self.recurrent(q[:, :, t], k[:, :, t], v[:, :, t], state)
        return out, state

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Attend one token by the recurrence; the package updates its sums in place, unless gradients are wanted."""
        o, state = self.recurrent(q.squeeze(2), k.squeeze(2), v.squeeze(2), state)
        return o.unsqueeze(2), state


@lru_cache(maxsize=4096)
def _masks(causal: bool, B: int, N: int, device: torch.device) -> tuple[Any, Any]:
    """Build masks of the visible pairs and of the keys [B, N] that exist, which is all of them.

    They are cached, for documents those of each length, since a model builds them once for all its layers, and one of them
    synchronises with the device. For a non-causal call the package only asks whether the first is full, so one of 1 × 1 serves
    instead of N × N booleans, which it makes of the causal one only when it is asked for them.
    """
    from fast_transformers.masking import FullMask, TriangularCausalMask

    pairs = TriangularCausalMask(N, device=device) if causal else FullMask(1, 1, device=device)
    return pairs, FullMask(B, N, device=device)


def _parameters(eps: float = 1e-6) -> None:
    """Raise what the constructor would raise, without importing the package."""
    refuse_bad_eps(eps)


def _why_not_this_dtype(p: Problem) -> str | None:
    if p.causal and p.dtype is not DType.FLOAT32:
        return f"its causal kernel computes in float32 only, not in {p.dtype}"
    if p.dtype.bytes == 2:
        return f"its float32 key mask converts {p.dtype} keys to float32, which its products then refuse"
    return None


def _built_without_cuda() -> bool:
    """Say whether the package is installed without its CUDA kernel; a missing package is reported elsewhere."""
    try:
        return find_spec("fast_transformers.causal_product.causal_product_cuda") is None
    except ModuleNotFoundError:
        return False
