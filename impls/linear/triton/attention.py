"""Causal linear attention by our own Triton kernels: chunks on tensor cores, segments side by side.

B batch, H heads, N tokens, D query/key width, M value width, L tokens of a chunk, S segments of T tokens.
"""

import torch
from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cost, Problem, Scalar, Tier, Workload

from ...partial.heads import of_each_head, refuse_unfit
from ...partial.on_paper import on_paper
from ...partial.tiles import padded
from ..decoding import LinearState
from ..eager.chunked import ChunkedLinear
from ..family import LinearFamily
from ..maps.feature_map import without_hidden
from ..parameters import refuse_bad_kernel_parameters
from ..work import Sizes, decoding_cost, linear_cost
from .tuning import WIDEST, Launch, arithmetic, blocks, cut, splits


class TritonLinear(LinearFamily):
    """Causal linear attention o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + eps), in O(N (L + D) M), with its own backward.

    Katharopoulos et al. 2020, eq. 9-15. φ is applied inside the kernels; exact at any N. Products take bfloat16 as it is,
    float16 as tf32, float32 by torch's float32 matmul precision; all sums are float32. Keeps the output, one denominator a row
    and one state a segment; the number of segments is what fills a GPU, whatever N is. Differentiable once, same bits in every
    run, no copies of inputs whose last dimension is dense. Raises ValueError on an unknown feature map or where eps < 0.
    """

    tier = Tier.TRITON
    masks = True
    requires = ("triton>=3.4",)
    devices = ("cuda",)
    causal_only = True
    dtypes = UP_TO_FLOAT32
    widths = (1, WIDEST)

    def __init__(self, problem: Problem, feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
        # needs triton, which if missing should be noticed here and not in the first call
        from . import product  # noqa: F401 - it defines the operator

        refuse_bad_kernel_parameters(feature_map, eps)
        super().__init__(problem, feature_map, eps)
        self.feature_map = feature_map
        # the operator itself: what torch.library makes of a function cannot be copied, and methods are
        self.attend = torch.ops.attnbench.causal_linear_attention_triton.default
        self.attend_one = torch.ops.attnbench.causal_linear_step_triton.default

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs with the padding of widths and of the last chunk, by its launches; needs no triton.

        The backward computes its states, dq, dk and dv in a walk each. Raises TypeError or ValueError on bad parameters.
        """
        refuse_bad_kernel_parameters(**params)  # type: ignore[arg-type]
        # the whole family is defined and decodes alike, and this class can be built without triton
        sizes = Sizes(problem, on_paper(ChunkedLinear, problem, params))
        if workload.decodes:
            return decoding_cost(sizes, workload)
        p, heads = problem, problem.B * problem.H
        kind = arithmetic(getattr(torch, p.dtype))
        of = blocks(p.D, p.M, kind)
        # in bfloat16 products with the normaliser go to tensor cores, in tiles of 16
        beside = 32.0 if kind == "bf16" else 0.0
        parts = cut(heads * splits(p.M, of.attend), p.N)
        executed = _summed(p, of.sums, (parts.segments - 1) * parts.tokens) + _walked(p.N, of.attend, p.D, p.M)
        executed += beside * _whole(p.N, of.attend) * splits(p.M, of.attend) * padded(p.D)
        if workload is Workload.FORWARD_BACKWARD:
            # from the end it is the first segment that is left out, and the last one may be shorter
            executed += _summed(p, of.sums, max(0, p.N - parts.tokens)) + _walked(p.N, of.values, p.D, p.M)
            executed += _walked(p.N, of.queries, p.M, p.D) + _walked(p.N, of.keys, p.M, p.D)
            columns = splits(p.D, of.queries) * min(of.queries.columns, padded(p.D))
            executed += beside * _whole(p.N, of.queries) * columns
        return linear_cost(sizes, workload, heads * executed)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N; key_mask bool [B, N].

        Raises ValueError on other shapes and dtypes, or where devices differ.
        """
        refuse_unfit(q, k, v, self.dtypes)
        k, v = of_each_head(q, without_hidden(k, key_mask), v)
        o: Tensor = self.attend(q, k, v, self.feature_map, float(self.eps))[0]
        return o

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: LinearState) -> tuple[Tensor, LinearState]:
        """Attend one token in one kernel: it adds key and value to the state, in place, and reads it with the queries."""
        q, k, v = (x.detach() for x in (q, k, v))
        return self.attend_one(q, k, v, state.sums, self.feature_map, float(self.eps)), state


def _walked(N: int, how: Launch, inner: int, width: int) -> float:
    """Count a walk: scores, their product with the rows, the state read and added to: 2 N (L inner + (L + 2 inner) width).

    Programs that share the columns of a result each compute the scores.
    """
    inner, columns = padded(inner), min(how.columns, padded(width))
    return 2.0 * _whole(N, how) * splits(width, how) * (how.chunk * inner + (how.chunk + 2 * inner) * columns)


def _summed(p: Problem, how: Launch, tokens: int) -> float:
    """Count what the tokens of all segments but one add to the state: 2 D M each."""
    columns = splits(p.M, how) * min(how.columns, padded(p.M))
    return 2.0 * _whole(tokens, how) * padded(p.D) * columns


def _whole(tokens: int, how: Launch) -> int:
    """Round up to whole chunks."""
    return -(-tokens // how.chunk) * how.chunk
