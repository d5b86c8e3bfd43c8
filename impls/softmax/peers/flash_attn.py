"""Softmax attention of the FlashAttention packages, second, third and fourth.

B batch, H heads, K heads of k and v, N tokens, D width of queries, keys and values.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor

from attnbench.api import HALF, Cell, Cost, Layout, Problem, Scalar, Tier, Workload

from ...partial.documents import borders
from ..exact import ExactSoftmax
from ..library.limits import generation, misaligned, other_generation
from ..work import cost, fused_flops, refuse_parameters


class FlashAttnSoftmax(ExactSoftmax):
    """`flash_attn_func` of the package flash-attn: FlashAttention-2 by its authors, on CUDA.

    Dao 2023, in O(N²) time and O(N) memory. The package takes [B, N, H, D], in which inputs are laid out, so nothing is
    transposed. Documents in one row go to `flash_attn_varlen_func`, all in one call. No key masks and no decoding.
    """

    paper = "arXiv:2307.08691"
    tier = Tier.LIBRARY
    layout = Layout.BNHD
    requires = ("flash-attn>=2.5",)
    devices = ("cuda",)
    dtypes = HALF
    one_width = packs = True
    widths = (1, 256)
    module: ClassVar[str] = "flash_attn"
    """The package's module that has the function."""
    generations: ClassVar[tuple[int, ...]] = ()
    """The major compute capabilities that it is taken to here; empty for all since Ampere."""
    multiple: ClassVar[int] = 1
    """What widths must be multiples of: the second package fills them up, the later ones do not."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        package: Any = import_module(self.module)
        # its functions, for a module cannot be copied, and methods are, to be checked
        self._attend, self._attend_documents = package.flash_attn_func, package.flash_attn_varlen_func

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse widths that are not aligned, and a GPU of a generation that it is not taken to."""
        return misaligned(cell.problem, cls.multiple) or other_generation(cell, cls.generations)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips what a causal call hides. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, D] -> [B, H, N, D], differentiable."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return _output(self._attend(q, k, v, softmax_scale=self.scale, causal=self.causal)).transpose(1, 2)

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:  # noqa: ARG002 - one call attends all
        """Attend all documents in one call, of [N, H, D] with the borders between them."""
        q, k, v = (x.squeeze(0).transpose(0, 1) for x in inputs)
        at, longest = borders(lengths, q.device), max(lengths)
        ends = {"cu_seqlens_q": at, "cu_seqlens_k": at, "max_seqlen_q": longest, "max_seqlen_k": longest}
        found = self._attend_documents(q, k, v, **ends, softmax_scale=self.scale, causal=self.causal)
        return _output(found).transpose(0, 1).unsqueeze(0)


class FlashAttn3Softmax(FlashAttnSoftmax):
    """`flash_attn_func` of the package flash-attn-3: FlashAttention-3 by its authors, on Hopper GPUs. Shah et al. 2024."""

    paper = "arXiv:2407.08608"
    requires = ("flash-attn-3>=3.0.0b1",)
    module = "flash_attn_interface"
    generations = (9,)
    multiple = 8


class FlashAttn4Softmax(FlashAttnSoftmax):
    """`flash_attn_func` of the package flash-attn-4: FlashAttention-4 by its authors, compiled by CuTe at its first call.

    Zadouri et al. 2026, for Blackwell GPUs of data centres; the package also has kernels for Hopper, for Blackwell GPUs of
    desktops, and for the forward on Ampere and Ada.
    """

    paper = "arXiv:2603.05451"
    tier = Tier.CUDA
    requires = ("flash-attn-4>=4.0.0b20",)
    module = "flash_attn.cute"
    generations = (8, 9, 10, 11, 12)
    widths = (8, 256)
    multiple = 8

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what the package does by the GPU, and widths beyond 128 where it has no limit of its own, as untried."""
        wrong, major, D = super().why_not(cell), generation(cell), cell.problem.D
        if wrong or major in {0, 9}:
            return wrong
        if major == 8 and cell.workload.learns:
            return "the package has no backward for compute capability 8.x"
        fits = D <= 128 or (D == 256 and major in {10, 11})
        return None if fits else f"widths beyond 128 are for compute capability 9.x, and 256 for 10.x and 11.x: D={D}"


def _output(found: Any) -> Tensor:  # noqa: ANN401 - the packages have no types
    """Return the output, beside which the later packages give the logarithms of the denominators, some versions always."""
    o: Tensor = found[0] if isinstance(found, tuple) else found
    return o
