"""Causal linear attention by our own CUDA kernels, compiled at their first use.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cost, Problem, Scalar, Tier, Workload

from ...partial.heads import of_each_head, refuse_unfit
from ...partial.on_paper import on_paper
from ..eager.chunked import ChunkedLinear
from ..family import LinearFamily
from ..maps.feature_map import without_hidden
from ..parameters import refuse_bad_kernel_parameters
from ..work import Sizes, decoding_cost, linear_cost
from .layout import WIDEST, Pass, layout
from .product import causal_linear_forward


class CudaLinear(LinearFamily):
    """Causal linear attention o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + eps) by running sums in registers, in O(N D M).

    Katharopoulos et al. 2020, Algorithm 1 and eq. 13-15. φ is applied inside the kernels; sums are float32 whatever the dtype.
    Memory beside output and gradients is one denominator a row (in the backward also one g·o) and, where B H is too small to
    fill a GPU, a state for each of some hundred segments. Differentiable once, same bits in every run. Raises ValueError on an
    unknown feature map or where eps < 0.
    """

    tier = Tier.CUDA
    masks = True
    requires = ("cuda-core[cu13]>=1.0",)
    devices = ("cuda",)
    causal_only = True
    dtypes = UP_TO_FLOAT32
    widths = (1, WIDEST)  # its state is kept in registers

    def __init__(self, problem: Problem, feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
        # so that a missing package is noticed here and not in the first call
        import cuda.core  # type: ignore[import-untyped, unused-ignore]  # noqa: F401

        super().__init__(problem, feature_map, eps)
        refuse_bad_kernel_parameters(feature_map, eps)
        self.feature_map = feature_map

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes, with widths as the lanes pad them.

        Each pass adds to the state and reads it, and adds to it once more where segments are summed first. Raises TypeError or
        ValueError on bad parameters.
        """
        refuse_bad_kernel_parameters(**params)  # type: ignore[arg-type]
        sizes = Sizes(problem, on_paper(ChunkedLinear, problem, params))
        if workload.decodes:
            return decoding_cost(sizes, workload)
        p, trains, heads = problem, workload is Workload.FORWARD_BACKWARD, problem.B * problem.H
        # φ(q)·z in the forward, g·o in the backward
        executed = 2.0 * p.M if trains else 0.0
        for of in Pass if trains else [Pass.FORWARD]:
            plan = layout(of, p.D, p.M, p.dtype.bytes)
            executed += (3 if plan.stored(heads, p.N) else 2) * 2.0 * plan.padded_rows * plan.padded_columns
            executed += 2.0 * plan.padded_rows * plan.slices if of is Pass.FORWARD else 0.0
        return linear_cost(sizes, workload, heads * p.N * executed)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N, differentiable once.

        Raises ValueError on other shapes, or where dtypes or devices differ.
        """
        refuse_unfit(q, k, v)
        k, v = of_each_head(q, without_hidden(k, key_mask), v)
        o: Tensor
        o, _ = causal_linear_forward(q, k, v, self.feature_map, float(self.eps))
        return o
