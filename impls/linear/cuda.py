"""Causal linear attention by CUDA kernels of our own, compiled at their first use.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Cell, Cost, DType, Problem, Scalar, Tier, Workload

from .chunked import ChunkedLinear
from .cuda_cost import cost_by_walks
from .cuda_layout import WIDEST
from .cuda_product import causal_linear_forward
from .family import LinearFamily
from .feature_map import elementwise, without_hidden
from .parameters import refuse_bad_eps
from .work import Sizes, decoding_cost


class CudaLinear(LinearFamily):
    """Causal linear attention o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + eps) by running sums in registers; nothing grows with N.

    Paper: Katharopoulos et al. 2020, Algorithm 1 and eq. 13-15. φ is applied inside the kernels; sums are float32 whatever
    the dtype. Adds nothing but the output, the gradients, one denominator a row (in the backward also one g·o), and, where
    B H is too small to fill a GPU, a state for each of some hundred segments. Once differentiable, same bits every run.
    Raises ValueError on an unknown feature map or where eps < 0.
    """

    tier = Tier.CUDA
    masks = True
    requires = ("cuda-core[cu13]>=1.0",)

    def __init__(self, problem: Problem, feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
        # absent, it should be missed here and not in the first call
        import cuda.core  # type: ignore[import-untyped, unused-ignore]  # noqa: F401

        super().__init__(problem, feature_map, eps)
        _parameters(feature_map, eps)
        self.feature_map = feature_map

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """CUDA devices, the causal form, as many heads of k and v as of q, widths whose state fits into registers."""
        p = cell.problem
        if cell.device_kind != "cuda":
            return "its kernels run on CUDA devices"
        if not p.causal:
            return "its kernels are causal; linear.full does the form without a mask"
        if p.kv_heads != p.H:
            return "each head of q has its own k and v; kv_heads must equal H"
        if p.dtype is DType.FLOAT64:
            return "its kernels add in float32"
        if max(p.D, p.M) > WIDEST:
            return f"its state lies in registers, which hold widths up to {WIDEST}, not D={p.D} and M={p.M}"
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes. The peak is by the formula, not measured. Raises TypeError or ValueError on bad parameters."""
        _parameters(**params)  # type: ignore[arg-type]
        if workload.decodes:
            return decoding_cost(Sizes(problem, ChunkedLinear.on_paper(problem, params)), workload)
        return cost_by_walks(problem, workload)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """[B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], any N, differentiable once; key_mask bool [B, N]."""
        k = without_hidden(k, key_mask)
        o: Tensor
        o, _ = causal_linear_forward(q, k, v, self.feature_map, float(self.eps))
        return o


def _parameters(feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
    """Raise what the constructor would raise, without the package."""
    elementwise(feature_map)
    refuse_bad_eps(eps)
