"""Sparse attention by FlexAttention, compiled.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from typing import ClassVar

import torch
from torch import Tensor

from attnbench.api import UP_TO_FLOAT32, Cell, Problem, Scalar, Tier, Workload

from ...partial.flex import compiled
from ..family import SparseAttention
from ..patterns.factorised import Fixed, Strided
from ..patterns.neighbours import Atrous, Local, Longformer, Window
from ..patterns.pattern import Pattern, Shape
from .flex_blocks import pairs_visited
from .flex_calls import Attend, Union, attend, unions
from .flex_layout import shares


class FlexSparse(SparseAttention):
    """`torch.compile(flex_attention)`, with tokens in an order in which it skips many blocks of 128 × 128 (flex_layout.py).

    Dong et al. 2024, arXiv:2412.05496. A query sees a few ranges of keys, which the mask within a block reads from a list;
    blocks and lists are built at the first call of a length on a device and kept. The merged strided pattern takes two calls,
    merged by their logsumexp. The first call compiles for seconds, on a CPU with a C++ compiler. A CPU has no backward and
    returns no logsumexp; there an additional key of score 0 gives it in float32, where it is within ±64; beyond, `forward`
    raises ValueError.
    """

    tier = Tier.COMPILED
    dtypes = UP_TO_FLOAT32
    pattern_type: ClassVar[type[Pattern]]

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem, **params)
        self._flex: Attend = compiled()
        self._unions: dict[tuple[int, torch.device], list[Union]] = {}

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse narrow heads on CUDA, and training on a CPU."""
        p = cell.problem
        if cell.device_kind == "cuda":
            return f"on CUDA FlexAttention takes widths from 16: D={p.D}, M={p.M}" if min(p.D, p.M) < 16 else None
        return "FlexAttention has no backward on a CPU" if cell.workload is Workload.FORWARD_BACKWARD else None

    @classmethod
    def executed_flops(cls, problem: Problem, pattern: Pattern, workload: Workload) -> float:
        """Count two products over all pairs of visited blocks; the backward has five, since it computes the scores again."""
        p, pairs = problem, 0
        for share in shares(pattern, Shape.of(p)):
            for layout in share.layouts:
                alike = len(share.heads) if layout.first.shape[0] == 1 else 1
                pairs += alike * pairs_visited(layout.first, layout.stop, layout.keys)
        return (3.5 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2.0 * p.B * pairs * (p.D + p.M)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]; differentiable on CUDA."""
        return attend(self._calls(q), self._flex, q, k, v, self.scale)

    def prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend by FlexAttention on a GPU; elsewhere, and for no tokens, like the rest of the family."""
        return self(q, k, v) if q.is_cuda and q.shape[2] else super().prompt(q, k, v)

    def _calls(self, q: Tensor) -> list[Union]:
        where = q.shape[2], q.device
        if where not in self._unions:
            sink = q.device.type == "cpu"
            # built outside of inference mode, since a later call may be differentiated
            with torch.inference_mode(mode=False):
                self._unions[where] = unions(self.pattern, self.shape(q.shape[2]), q.device, sink=sink)
        return self._unions[where]


class FlexStrided(FlexSparse):
    """Child et al. 2019, section 4.3: residues grouped, merged with the near tokens by logsumexp, by FlexAttention."""

    pattern_type = Strided


class FlexFixed(FlexSparse):
    """Child et al. 2019, section 4.3: one call of FlexAttention, with the summary after the keys."""

    pattern_type = Fixed


class FlexLocal(FlexSparse):
    """The first strided pattern alone, by FlexAttention."""

    pattern_type = Local


class FlexAtrous(FlexSparse):
    """The second strided pattern alone, optionally only near keys, by FlexAttention over grouped residues."""

    pattern_type = Atrous


class FlexWindow(FlexSparse):
    """Beltagy et al. 2020, section 3.1: a sliding window by FlexAttention."""

    paper = "arXiv:2004.05150"
    pattern_type = Window
    windowed = "sparse.window"


class FlexLongformer(FlexSparse):
    """Beltagy et al. 2020, section 3.1: global tokens first, then residues of the dilation, by one call of FlexAttention."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer
