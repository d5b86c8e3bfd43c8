"""The patterns in plain torch, below N²: `sparse.strided`, `.fixed`, `.local`, `.atrous`, `.window`, `.longformer`."""

from torch import Tensor

from attnbench.api import Problem, Workload

from ..partial.softmax import is_fused
from .eager_cost import executed_flops, peak_bytes
from .factorised import Fixed, Strided
from .family import SparseAttention
from .neighbours import Atrous, Local, Longformer, Window
from .pattern import Pattern, Shape
from .plan import plan
from .union import union_attention


class EagerSparse(SparseAttention):
    """Only pairs that the pattern leaves, and what tiles have beside them; forward and backward keep O(N) numbers.

    Once differentiable.
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]; K divides H."""
        return union_attention(q, k, v, plan(self.pattern, self.shape(q.shape[2]), is_fused(q)), self.scale)

    @classmethod
    def executed_and_peak(cls, problem: Problem, pattern: Pattern, workload: Workload) -> tuple[float, float]:
        """Of the form for CPUs."""
        ways = plan(pattern, Shape.of(problem), fused=True)
        return executed_flops(problem, ways, workload), peak_bytes(problem, ways, workload)


class EagerStrided(EagerSparse):
    """The last tokens, and every stride-th before: columns of the sequence written in rows of `stride`."""

    pattern_type = Strided


class EagerFixed(EagerSparse):
    """The own block, and cells of all blocks before, gathered."""

    pattern_type = Fixed


class EagerLocal(EagerSparse):
    """Strided's first pattern alone."""

    pattern_type = Local


class EagerAtrous(EagerSparse):
    """Strided's second pattern alone, or as much of it as is near."""

    pattern_type = Atrous


class EagerWindow(EagerSparse):
    """A sliding window."""

    paper = "arXiv:2004.05150"
    pattern_type = Window


class EagerLongformer(EagerSparse):
    """A dilated window among all but the global tokens, and those by themselves."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer
