"""Softmax attention by one named backend of torch, so that backends can be compared.

B batch, H heads, K heads of k and v, N tokens, S keys, D query/key width, M value width.
"""

from typing import ClassVar

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench.api import HALF, UP_TO_FLOAT32, Cell, Layout, Problem, Workload

from ..work import square_flops
from . import limits
from .sdpa import SdpaSoftmax


class ForcedSdpa(SdpaSoftmax):
    """`F.scaled_dot_product_attention` with one backend allowed; torch raises RuntimeError where that cannot run.

    Allowing and restoring costs about 10 µs a call on a CPU.
    """

    backend: ClassVar[SDPBackend]

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:  # noqa: ARG003 - whatever the problem
        """Return False: a fused kernel keeps none."""
        return False

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend in one call, by the one backend."""
        with sdpa_kernel(self.backend):
            return super().attend(q, k, v, causal=causal, key_mask=key_mask)


class MathSdpa(ForcedSdpa):
    """torch's softmax attention with all scores in memory: any device, dtype, width and mask.

    float16 and bfloat16 are computed in float32. Keys and values that serve several heads of q are repeated, also in each step
    of decoding.
    """

    paper = "arXiv:1706.03762"
    backend = SDPBackend.MATH
    layout = Layout.BHND  # batched products, which copy any other layout first

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:  # noqa: ARG003 - whatever the problem
        """Return True."""
        return True

    @classmethod
    def _flops_with_scores(cls, problem: Problem, workload: Workload) -> float:
        return square_flops(problem, workload, backward_products=4)


class FlashSdpa(ForcedSdpa):
    """torch's FlashAttention-2, or on a CPU its own flash kernel. Dao 2023 (arXiv:2307.08691)."""

    paper = "arXiv:2307.08691"
    backend = SDPBackend.FLASH_ATTENTION
    one_width = True

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what torch's dispatcher refuses."""
        return limits.flash(cell)


class EfficientSdpa(ForcedSdpa):
    """torch's memory-efficient kernel from xformers, the fused one that takes float32. Rabe & Staats 2021."""

    paper = "arXiv:2112.05682"
    backend = SDPBackend.EFFICIENT_ATTENTION
    devices = ("cuda",)
    dtypes = UP_TO_FLOAT32
    grouped = False

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse widths that are not aligned for tensor cores."""
        return limits.misaligned(cell.problem, 8 if cell.problem.dtype in HALF else 4)


class CudnnSdpa(ForcedSdpa):
    """cuDNN's fused attention, by torch, with the algorithm of Dao et al. 2022."""

    backend = SDPBackend.CUDNN_ATTENTION
    devices = ("cuda",)
    dtypes = HALF
    widths = (1, 256)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what torch's dispatcher refuses."""
        return limits.cudnn(cell)
