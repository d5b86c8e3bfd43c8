"""Attention over quantised keys by our own Triton kernels: table and window in one softmax on tensor cores.

B batch, H heads, N tokens, S codes, L tokens of a block, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cell, Cost, Problem, Scalar, Tier, Workload

from ...partial.heads import refuse_unfit
from ..family import VQFamily
from ..options import NONE, SERIAL, VQOptions
from .cost import cost_by_tiles
from .tuning import WIDEST


class TritonVQ(VQFamily):
    """Softmax over quantised keys in O(N (S + L) (D + M)): one launch over queries, after four for codes and two for tables.

    Products of float32 follow torch's float32 matmul precision; sums and tables are float32. Keeps the output and one number a
    row; the backward builds the tables again. Differentiable once, same bits in every run, no copies of inputs whose last
    dimension is dense. It has its own reduction of tables, and no bias.
    """

    tier = Tier.TRITON
    requires = ("triton>=3.4",)
    devices = ("cuda",)
    dtypes = UP_TO_FLOAT32
    widths = (1, WIDEST)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        # needs triton, which if missing should be noticed here and not in the first call
        from . import coding, product  # noqa: F401 - they define the operators

        super().__init__(problem, **params)
        refuse_bias(self.options)
        # the operators themselves: the objects that define them cannot be copied, and methods are, to be checked
        operators = torch.ops.attnbench
        self.attend = operators.vq_attention_triton.default
        self.normalise = operators.rms_norm_triton.default
        self.nearest = operators.nearest_codes_triton.default
        self.lookup = operators.rows_of_codes_triton.default

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes on a GPU; needs no triton. Raises TypeError or ValueError on bad parameters."""
        options = VQOptions(**params)  # type: ignore[arg-type]
        refuse_bias(options)
        return cost_by_tiles(problem, options, workload)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a bias and reductions that its kernels do not have."""
        if cell.params.get("bias", NONE) != NONE:
            return "its kernels add no bias; vq.blockwise does"
        if cell.params.get("reduction", SERIAL) != SERIAL:
            return "its kernels merge their tables one after the other; leave reduction out"
        return super().why_not(cell)

    def normalised(self, x: Tensor) -> Tensor:
        """Normalise q or k in one pass."""
        if not (self.quantisation.normalise and in_reach(x)):
            return super().normalised(x)
        y: Tensor = self.normalise(x, self.factor)
        return y

    @torch.no_grad()
    def assigned(self, k: Tensor) -> Tensor:
        """Choose the codes without distances in memory."""
        if not in_reach(k):
            return super().assigned(k)
        codes: Tensor = self.nearest(k, self.codebook.vectors.float())
        return codes

    def coded(self, k: Tensor, choices: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Code the keys. Raises ValueError where these have not the codebook's heads and width, or choices not their shape."""
        heads, _, D = self.codebook.sums.shape
        if k.shape[1::2] != (heads, D) or (choices is not None and choices.shape != k.shape[:3]):
            # a kernel would read beyond the tensors
            chosen = "" if choices is None else f", choices {list(choices.shape)}"
            raise ValueError(f"k {list(k.shape)}{chosen}: must be [B, {heads}, N, {D}], choices [B, {heads}, N]")
        return super().coded(k, choices)

    def looked_up(self, codes: Tensor, codebook: Tensor) -> Tensor:
        """Look up the rows of codes."""
        if not in_reach(codebook):
            return super().looked_up(codes, codebook)
        rows: Tensor = self.lookup(codes, codebook)
        return rows

    def _attend(self, q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
        refuse_unfit(q, k_hat, v, self.dtypes)
        o: Tensor = self.attend(
            q, k_hat, v, codes, codebook, self.options.block, self.problem.causal, self.options.gradient_through_table
        )[0]
        return o


def in_reach(x: Tensor) -> bool:
    """Say whether the kernels take x: what surrounds them also computes on CPUs and in float64, as references do."""
    return x.is_cuda and x.dtype is not torch.float64


def refuse_bias(options: VQOptions) -> None:
    """Raise ValueError on a bias, which the kernels would ignore."""
    if options.bias != NONE:
        raise ValueError(f"bias={options.bias!r}: must be none; vq.blockwise adds one")
