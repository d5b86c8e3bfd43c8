"""Softmax attention by one named backend of torch, so that backends can be compared.

B batch, H heads, K heads of k and v, N tokens, S keys, D query/key width, M value width.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench.api import HALF, UP_TO_FLOAT32, Attention, Cell, Layout, Problem, State, Workload

from ...partial.documents import borders
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
    """torch's FlashAttention-2, or on a CPU its own flash kernel. Dao 2023 (arXiv:2307.08691).

    Documents in one row are one call of `varlen_attn` on CUDA, by the same kernels, where D is a multiple of 8; elsewhere each
    is a call.
    """

    paper = "arXiv:2307.08691"
    backend = SDPBackend.FLASH_ATTENTION
    one_width = True

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what torch's dispatcher refuses."""
        return limits.flash(cell)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all tokens; on CUDA, where torch's flash kernel takes no mask, one after the other."""
        return Attention.extend(self, *inputs, state=state) if inputs[0].is_cuda else super().extend(*inputs, state=state)

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:
        """Attend all documents in one call where there is one for them, of [N, H, D] with the borders between them."""
        q, k, v = (x.squeeze(0).transpose(0, 1) for x in inputs)
        if not q.is_cuda or q.shape[-1] % 8:
            return super().attend_documents(attend, inputs, lengths)
        from torch.nn.attention import varlen  # brings torch's compiler, which takes seconds

        at, longest = borders(lengths, q.device), max(lengths)
        window, grouped = (-1, 0 if self.causal else -1), q.shape[1] != k.shape[1]
        o = varlen.varlen_attn(q, k, v, at, at, longest, longest, scale=self.scale, window_size=window, enable_gqa=grouped)
        return o.transpose(0, 1).unsqueeze(0)  # type: ignore[union-attr]


class SwitchedSdpa(FlashSdpa):
    """torch's flash backend by a later FlashAttention, which torch takes from its package and puts in the place of its own.

    torch's switch is one for the whole process: what is built after it, `softmax.sdpa` too, calls the same kernels.
    """

    devices = ("cuda",)
    dtypes = HALF
    switch: ClassVar[str]
    """Its name in torch."""
    generations: ClassVar[tuple[int, ...]]
    """The major compute capabilities that torch calls it on."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        attention.activate_flash_attention_impl(self.switch)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a torch that has no such switch, a GPU that it is not for, and what torch's dispatcher refuses."""
        if not hasattr(attention, "list_flash_attention_impls") or cls.switch not in attention.list_flash_attention_impls():
            return f"torch {torch.__version__} has no switch to {cls.switch}; take 2.11 or later"
        return limits.other_generation(cell, cls.generations) or super().why_not(cell)


class Flash3Sdpa(SwitchedSdpa):
    """torch's flash backend by FlashAttention-3, for Hopper GPUs. Shah et al. 2024."""

    paper = "arXiv:2407.08608"
    requires = ("flash-attn-3>=3.0.0b1",)
    switch = "FA3"
    generations = (9,)


class Flash4Sdpa(SwitchedSdpa):
    """torch's flash backend by FlashAttention-4, compiled by CuTe at its first call. Zadouri et al. 2026."""

    paper = "arXiv:2603.05451"
    requires = ("flash-attn-4>=4.0.0b20",)
    switch = "FA4"
    generations = (9, 10)


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
