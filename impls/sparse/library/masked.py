"""Sparse attention by torch's fused kernel and a dense mask: what users write, and what a sparse kernel must beat.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cost, Layout, Problem, Scalar, Tier, Workload

from ...partial.backend import backend_that_ran
from ..family import SparseAttention
from ..patterns.band import Band, Part, pairs
from ..patterns.dense_mask import DenseMask
from ..patterns.factorised import Fixed, Strided
from ..patterns.neighbours import Atrous, Local, Longformer, Window
from ..patterns.pattern import Pattern, Shape
from ..reference import masked_softmax_attention
from ..work import all_pairs


class MaskedSparse(SparseAttention):
    """`F.scaled_dot_product_attention` with the pattern as a dense mask: all N² pairs, and no score is skipped.

    The mask is built at the first call of a length on a device and kept: N² bytes, or H N² where heads see different keys; each
    call converts it to floats. Only the kernels that take a mask can run: on CUDA cuDNN's (in half precision, on newer GPUs) or
    the memory-efficient one or, where they refuse (float64), the one with scores in memory; `observe` says which.
    """

    tier = Tier.LIBRARY
    masks = True
    layout = Layout.BNHD  # the order that the fused kernels read, write and return gradients in
    pattern_type: ClassVar[type[Pattern]]

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem, **params)
        self._masks: dict[tuple[int, torch.device], DenseMask] = {}

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all pairs as executed, hidden or not; padding lowers what is needed. Raises TypeError or ValueError."""
        cost = super().cost(problem, params, workload)
        if not problem.padding:
            return cost
        pattern, shape = cls.pattern_type.of(problem, params), Shape.of(problem)
        seen = sum(_pairs_within(part, n) for n in problem.lengths for part in pattern.parts(shape))
        # a short sequence may show no pair at all
        share = seen / max(1, problem.B * all_pairs(pattern, shape))
        return cost.model_copy(update={"exact_flops": cost.exact_flops * share})

    @classmethod
    def executed_flops(cls, problem: Problem, pattern: Pattern, workload: Workload) -> float:  # noqa: ARG003 - no pair is skipped
        """Count two products over the square; the backward adds five, or four where scores were kept, as for M ≠ D on a CPU."""
        p, backward = problem, 5 if problem.M == problem.D else 4
        products = 2 + (backward if workload is Workload.FORWARD_BACKWARD else 0)
        return products * float(p.B * p.H * p.N * p.N) * (p.D + p.M)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and bool [B, N] or None -> [B, H, N, M], differentiable."""
        mask, grouped = self._mask(q), q.shape[1] != k.shape[1]
        if key_mask is not None:
            mask = mask.within(key_mask)
            # a query that sees nothing is shown all keys, whose scores may be too large for the kernel's backward
            k = k.masked_fill(~key_mask[:, None, :, None], 0)
        seen = mask.seen if key_mask is not None else mask.seen.unsqueeze(0)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale, enable_gqa=grouped)
        return mask.cleared(o)

    def prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to a prompt by its dense mask, as to any sequence; to no tokens like the rest of the family."""
        return self(q, k, v) if q.shape[2] else super().prompt(q, k, v)

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record which kernel ran inside."""
        with backend_that_ran() as facts:
            yield facts

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute softmax over the keys that the dense mask and the key mask show; a query that sees none gets 0."""
        seen = self.pattern.seen(self.shape(q.shape[2]), q.device)
        return masked_softmax_attention(q, k, v, seen if key_mask is None else seen & key_mask[:, None, None, :])

    def _mask(self, q: Tensor) -> DenseMask:
        where = q.shape[2], q.device
        if where not in self._masks:
            # built outside of inference mode, since a later call may be differentiated
            with torch.inference_mode(mode=False):
                self._masks[where] = DenseMask.of(self.pattern, self.shape(q.shape[2]), q.device)
        return self._masks[where]


class MaskedStrided(MaskedSparse):
    """Child et al. 2019, section 4.3, the strided pattern by a dense mask."""

    pattern_type = Strided


class MaskedFixed(MaskedSparse):
    """Child et al. 2019, section 4.3, the fixed pattern by a dense mask."""

    pattern_type = Fixed


class MaskedLocal(MaskedSparse):
    """The first strided pattern alone, by a dense mask."""

    pattern_type = Local


class MaskedAtrous(MaskedSparse):
    """The second strided pattern alone, optionally only near keys, by a dense mask."""

    pattern_type = Atrous


class MaskedWindow(MaskedSparse):
    """Beltagy et al. 2020, section 3.1: a sliding window by a dense mask."""

    paper = "arXiv:2004.05150"
    pattern_type = Window
    windowed = "sparse.window"


class MaskedLongformer(MaskedSparse):
    """Beltagy et al. 2020, section 3.1: a dilated window and global tokens by a dense mask."""

    paper = "arXiv:2004.05150"
    pattern_type = Longformer


def _pairs_within(part: Part, n: int) -> int:
    """Count the pairs of all heads whose keys are among the first n tokens."""
    return sum(pairs(_cut(band, part, head, n)) for head in range(len(part.heads)) for band in part.bands)


def _cut(band: Band, part: Part, head: int, n: int) -> Band:
    """Restrict a band to keys among the first n tokens."""
    stop = n
    if band.summary:
        assert part.summary is not None
        blocks, rest = divmod(n, part.summary.block)
        stop = part.summary.cells * blocks + min(part.summary.cells, max(0, rest - part.summary.starts[head]))
    return replace(band, keys=(min(band.keys[0], stop), min(band.keys[1], stop)))
