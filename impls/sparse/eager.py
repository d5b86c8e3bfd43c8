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
    """Softmax over the pairs of a pattern in plain torch, by tiles that cover few other pairs, in O(N) memory.

    Differentiable once.
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]; K divides H."""
        return union_attention(q, k, v, plan(self.pattern, self.shape(q.shape[2]), is_fused(q)), self.scale)

    @classmethod
    def executed_and_peak(cls, problem: Problem, pattern: Pattern, workload: Workload) -> tuple[float, float]:
        """Count FLOPs and peak of the form for CPUs."""
        ways = plan(pattern, Shape.of(problem), fused=True)
        return executed_flops(problem, ways, workload), peak_bytes(problem, ways, workload)


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
    pattern_type = Window


class EagerLongformer(EagerSparse):
    """Beltagy et al. 2020, section 3.1: a dilated window and global tokens, in plain torch."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer
