"""The plugin surface: all that an attention ever imports.

B batch, H heads, N tokens, D query/key width, M value width. Tensors are [B, H, N, .] at the door.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import DType, Problem

__all__ = ["Attention", "Causality", "Cell", "Cost", "DType", "Layout", "Problem", "Scalar", "Tier", "Workload", "draw"]


class Tier(StrEnum):
    """How a method is implemented, so that algorithm and implementation are not confused."""

    EAGER = "eager"
    COMPILED = "compiled"
    TRITON = "triton"
    CUDA = "cuda"
    LIBRARY = "library"


class Causality(StrEnum):
    """What a causal call hides: nothing is causal, everything later, or only later values (hashing sees later keys)."""

    NONE = "none"
    FULL = "full"
    VALUES_ONLY = "values_only"


class Layout(StrEnum):
    """Order of the dimensions in memory, outermost first; the shape at the door is [B, H, N, .] either way."""

    BHND = "BHND"
    BNHD = "BNHD"


class Attention(nn.Module, ABC):
    """One attention method, built for one problem.

    A subclass states what it is by class attributes and its limits in words through `why_not`;
    the harness never guesses. Its constructor takes the problem and its own keyword parameters.
    """

    paper: ClassVar[str]
    tier: ClassVar[Tier] = Tier.EAGER
    causality: ClassVar[Causality] = Causality.FULL
    layout: ClassVar[Layout] = Layout.BHND
    requires: ClassVar[tuple[str, ...]] = ()
    """Distributions beyond torch, as pip requirements; import them in `__init__`, not at the top of the file."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:  # noqa: ARG003 - the default has no limits
        """Say why this cell cannot run, in words, or return None."""
        return None

    @classmethod
    @abstractmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes of one call, by formula; raises TypeError or ValueError on bad parameters."""

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw (q, k, v) from N(0, 1) on the generator's device, in the native layout."""
        q = draw(problem, problem.H, problem.D, generator, cls.layout)
        k = draw(problem, problem.kv_heads, problem.D, generator, cls.layout)
        return q, k, draw(problem, problem.kv_heads, problem.M, generator, cls.layout)

    def choose(self, *inputs: Tensor) -> Tensor | None:  # noqa: ARG002 - most methods choose nothing
        """Make the discrete choices (buckets, codes, blocks) of these inputs, or return None.

        Where it returns a tensor, `forward` and `reference` take it back as the keyword `choices`.
        """
        return None

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D] [B, H, N, D] [B, H, N, M] -> [B, H, N, M], differentiable."""

    @abstractmethod
    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Evaluate the paper's definition, dense and slow, in any dtype, with this object's own parameters and choices."""

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record, while one untimed call runs inside, which kernel it reached; the default knows nothing."""
        yield {}


def draw(problem: Problem, heads: int, width: int, generator: torch.Generator, layout: Layout) -> Tensor:
    """N(0, 1) of shape [B, heads, N, width], contiguous in `layout`."""
    shape = (problem.B, heads, problem.N, width)
    # drawn in one order whatever the layout: all methods of a block see the same numbers
    x = torch.randn(shape, generator=generator, device=generator.device, dtype=getattr(torch, problem.dtype))
    return x.transpose(1, 2).contiguous().transpose(1, 2) if layout is Layout.BNHD else x


def dense_flops(problem: Problem) -> float:
    """FLOPs of dense softmax attention of this shape, forward: the `nominal` of every method; half where causal.

    2 B H N^2 (D + M), or B H N (N + 1) (D + M): Vaswani et al. 2017, section 3.2.1, matrix products only.
    """
    p = problem
    pairs = p.N * (p.N + 1) / 2 if p.causal else p.N * p.N
    return 2.0 * p.B * p.H * pairs * (p.D + p.M)


def io_bytes(problem: Problem, workload: Workload) -> float:
    """Bytes that any method must move: q, k, v in and o out; backward reads them and g again, and writes three gradients."""
    p = problem
    kv = p.B * p.kv_heads * p.N * (p.D + p.M)
    q, o = p.B * p.H * p.N * p.D, p.B * p.H * p.N * p.M
    forward = q + kv + o
    backward = q + kv + o + q + kv  # read q, k, v, g; write dq, dk, dv
    return float(p.dtype.bytes * (forward + (backward if workload is Workload.FORWARD_BACKWARD else 0)))


def default_scale(problem: Problem) -> float:
    """1 / sqrt(D)."""
    return 1.0 / math.sqrt(problem.D)
