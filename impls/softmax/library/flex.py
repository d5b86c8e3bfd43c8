"""Softmax attention by FlexAttention, compiled.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from attnbench.api import UP_TO_FLOAT32, Cell, Cost, Problem, Scalar, Tier, Workload

from ...partial.flex import compiled
from ..exact import ExactSoftmax
from ..work import cost, exact_flops, refuse_parameters
from .block_mask import block_mask


class FlexSoftmax(ExactSoftmax):
    """`torch.compile(flex_attention)`: one fused kernel generated for the shape, which skips hidden blocks of 128 × 128.

    Dong et al. 2024, in O(N²) time and O(N) memory. The block mask of a length, or of documents in one row, is built once for
    each device, at the first call; that of a key mask at each call, because every batch has its own. The first call compiles
    for seconds, on a CPU with a C++ compiler. No backward on a CPU, and no decoding.
    """

    paper = "arXiv:2412.05496"
    tier = Tier.COMPILED
    masks = packs = True
    dtypes = UP_TO_FLOAT32

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._flex = compiled()
        self._masks: dict[tuple[tuple[int, ...], torch.device], BlockMask] = {}

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse narrow heads on CUDA, and training on a CPU."""
        p = cell.problem
        if cell.device_kind == "cuda":
            return f"on CUDA FlexAttention takes widths from 16: D={p.D}, M={p.M}" if min(p.D, p.M) < 16 else None
        return "FlexAttention has no backward on a CPU" if cell.workload is Workload.FORWARD_BACKWARD else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips all that is hidden: a lower bound, as edge blocks are computed whole.

        Raises TypeError on any parameter.
        """
        refuse_parameters(params)
        # a backward computes the scores again: seven products where the definition has six
        executed = exact_flops(problem, workload) * (7 / 6 if workload is Workload.FORWARD_BACKWARD else 1)
        return cost(problem, workload, executed=executed)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], bool [B, N] or None -> [B, H, N, M]; differentiable on CUDA."""
        N, device = q.shape[2], q.device
        if key_mask is not None:
            return self._attend(q, k, v, block_mask(N, device, causal=self.causal, key_mask=key_mask))
        return self._attend(q, k, v, self._mask_of((N,), device))

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:  # noqa: ARG002 - one call attends all
        """Attend all documents in one call, which skips blocks of pairs of two of them."""
        q, k, v = inputs
        return self._attend(q, k, v, self._mask_of(lengths, q.device))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: BlockMask | None) -> Tensor:
        o: Tensor = self._flex(q, k, v, block_mask=mask, scale=self.scale, enable_gqa=q.shape[1] != k.shape[1])
        return o

    def _mask_of(self, lengths: tuple[int, ...], device: torch.device) -> BlockMask | None:
        """Return the mask of documents of these lengths, which is made once; None where nothing is hidden."""
        if len(lengths) == 1 and not self.causal:
            return None
        if (lengths, device) not in self._masks:
            documents = lengths if len(lengths) > 1 else ()
            self._masks[lengths, device] = block_mask(sum(lengths), device, causal=self.causal, documents=documents)
        return self._masks[lengths, device]
