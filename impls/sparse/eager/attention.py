"""The patterns in plain torch, below N²: `sparse.strided`, `.fixed` … `.longformer`, and a window with sinks."""

import torch
from torch import Tensor, nn

from attnbench.api import Problem, Scalar, Workload

from ...partial.fused import queries_at_once
from ...partial.softmax import is_fused
from ..family import SparseAttention
from ..patterns.factorised import Fixed, Strided
from ..patterns.neighbours import Atrous, Local, Longformer, Window
from ..patterns.pattern import Pattern, Shape
from .plan import Walk, plan
from .rectangles import Rectangle
from .union import union_attention


class EagerSparse(SparseAttention):
    """Softmax over the pairs of a pattern in plain torch, by tiles that cover few other pairs, in O(N) memory.

    Differentiable once.
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]; K divides H."""
        return union_attention(q, k, v, plan(self.pattern, self.shape(q.shape[2]), is_fused(q)), self.scale, self.sinks)

    @classmethod
    def executed_flops(cls, problem: Problem, pattern: Pattern, workload: Workload) -> float:
        """Count two products over the pairs of all tiles of the form for CPUs, masked ones included.

        The backward adds five: S and dP again, dq, dk, dv.
        """
        ways, both = plan(pattern, Shape.of(problem), fused=True), workload is Workload.FORWARD_BACKWARD
        products = 2 * _pairs(ways.forward) + (5 * _pairs(ways.backward) if both else 0)
        return 2.0 * problem.B * products * max(problem.D, problem.M)


class EagerStrided(EagerSparse):
    """Child et al. 2019, section 4.3: the last tokens, and every stride-th before, in plain torch."""

    pattern_type = Strided


class EagerFixed(EagerSparse):
    """Child et al. 2019, section 4.3: the own block, and gathered cells of all blocks before, in plain torch."""

    pattern_type = Fixed


class EagerLocal(EagerSparse):
    """The first strided pattern alone, in plain torch."""

    pattern_type = Local


class EagerAtrous(EagerSparse):
    """The second strided pattern alone, optionally only near keys, in plain torch."""

    pattern_type = Atrous


class EagerWindow(EagerSparse):
    """Beltagy et al. 2020, section 3.1: a sliding window, in plain torch."""

    paper = "arXiv:2004.05150"
    packs = True
    pattern_type = Window
    windowed = "sparse.window"


class EagerSinkWindow(EagerWindow):
    """A sliding window in which each head learns a sink: one more score in its softmax, whose weight goes to no value.

    gpt-oss, model card (arXiv:2508.10925): a learned bias in the denominator of the softmax, so that a query may attend to
    nothing. Sinks are drawn N(0, 1), where a model learns them.
    """

    paper = "arXiv:2508.10925"
    windowed = ""

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem, **params)
        self.sinks = nn.Parameter(torch.randn(problem.H).to(getattr(torch, problem.dtype)))


class EagerLongformer(EagerSparse):
    """Beltagy et al. 2020, section 3.1: a dilated window and global tokens, in plain torch."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer


def _pairs(way: tuple[Walk, ...]) -> int:
    return sum(len(walk.heads) * sum(map(_pairs_of, walk.rectangles)) for walk in way)


def _pairs_of(r: Rectangle) -> int:
    """Count the pairs of one row: all of a tile; of a causal one each block of queries up to its last key."""
    length, S = r.queries.length, r.keys.length
    if not r.causal:
        return r.queries.count * length * S
    block = queries_at_once(length)
    return r.queries.count * sum(min(block, length - a) * min(a + block, S) for a in range(0, length, block))
