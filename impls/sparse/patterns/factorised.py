"""The factorised patterns of the Sparse Transformer, and the three ways to combine two of them.

i queries, j keys, h heads, N tokens, l stride or block.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnbench.api import Problem, Scalar

from .band import Band, Part, Summary
from .pattern import Pattern, Shape, nearest_power_of_root, one_of, whole

MODES = ("merged", "per_head", "by_layer")
CONVENTIONS = ("paper", "code")


@dataclass(frozen=True)
class Factorised(Pattern):
    """Two patterns, combined by `mode` (Child et al. 2019, section 4.2).

    merged: one softmax over the union. per_head: even heads have the first, odd heads the second. by_layer: all heads of
    `layer` 0, 2, … have the first, of 1, 3, … the second.
    """

    stride: int
    mode: str = "merged"
    layer: int = 0

    def __post_init__(self) -> None:
        whole(self.stride, "stride")
        one_of(self.mode, "mode", MODES)
        whole(self.layer, "layer", least=0)

    @classmethod
    def defaults(cls, p: Problem, given: dict[str, Scalar]) -> dict[str, Scalar]:  # noqa: ARG003
        """Default to the stride nearest √N."""
        return {"stride": nearest_power_of_root(p.N)}

    @abstractmethod
    def first(self, i: Tensor, j: Tensor) -> Tensor:
        """Say what the first pattern shows, A1 as it is printed, without causality."""

    @abstractmethod
    def second(self, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say what the second pattern shows, A2 as it is printed, without causality."""

    @abstractmethod
    def first_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the first pattern alone, for these heads."""

    @abstractmethod
    def second_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the second pattern alone, for these heads."""

    @abstractmethod
    def merged_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the union for these heads, without counting anything twice."""

    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:  # noqa: ARG002 - as wide either way
        """Combine the two patterns by the mode."""
        first, second = self.first(i, j), self.second(i, j, h)
        if self.mode == "merged":
            return first | second
        chosen = h % 2 if self.mode == "per_head" else torch.full_like(h, self.layer % 2)
        return torch.where(chosen == 0, first, second)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Combine the two patterns by the mode."""
        heads = tuple(range(shape.H))
        if self.mode == "merged":
            return self.merged_parts(shape, heads)
        if self.mode == "by_layer":
            return (self.second_parts if self.layer % 2 else self.first_parts)(shape, heads)
        odd = self.second_parts(shape, heads[1::2]) if shape.H > 1 else ()
        return self.first_parts(shape, heads[::2]) + odd


@dataclass(frozen=True)
class Strided(Factorised):
    """A1: the last `stride` tokens; A2: every stride-th token (Child et al. 2019, section 4.3).

    convention paper: A1 = {t, …, i} with t = max(0, i - l), l + 1 keys; code: l keys, as in openai/sparse_attention. Without
    causality A1 is |i - j| <= l (or < l), A2 all of i's residue.
    """

    convention: str = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.convention, "convention", CONVENTIONS)

    @property
    def reach(self) -> int:
        """Return how far back A1 goes."""
        return self.stride - (self.convention == "code")

    def first(self, i: Tensor, j: Tensor) -> Tensor:
        """Say whether |i - j| <= l, or < l."""
        return (i - j).abs() <= self.reach

    def second(self, i: Tensor, j: Tensor, h: Tensor) -> Tensor:  # noqa: ARG002 - the same for all heads
        """Say whether (i - j) mod l = 0."""
        return (i - j) % self.stride == 0

    def first_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return one band."""
        return (Part(heads, (near(shape, self.reach),)),)

    def second_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return one band within each residue."""
        return (Part(heads, (within_residues(shape, self.stride, 0 if shape.causal else None),)),)

    def merged_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the near tokens, and of the residues those that are farther."""
        # in steps of l: A1 includes distance 0, and also 1 where it goes back l
        farther = self.reach // self.stride + 1
        bands = [near(shape, self.reach), within_residues(shape, self.stride, farther)]
        if not shape.causal:
            bands.append(within_residues(shape, self.stride, None, -farther))
        return (Part(heads, tuple(bands)),)


@dataclass(frozen=True)
class Fixed(Factorised):
    """A1: the own block of `stride` tokens; A2: the last `c` cells of every block (Child et al. 2019, section 4.3).

    The paper's {t, …, l} is read as the last c of 0 … l - 1. `distinct`: head h has sub-block h mod ⌊l/c⌋ of the block, counted
    from its end, as the paper recommends for several heads; else all have the last. c is at most the stride.
    """

    c: int = 8
    distinct: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.c, "c")
        if self.c > self.stride:
            raise ValueError(f"c={self.c}: a block of stride={self.stride} has no more cells than that")
        if not isinstance(self.distinct, bool):
            raise ValueError(f"distinct={self.distinct!r}: must be true or false")

    @classmethod
    def defaults(cls, p: Problem, given: dict[str, Scalar]) -> dict[str, Scalar]:
        """Default to the stride nearest √N, and to 8 cells or as many as it has."""
        stride = nearest_power_of_root(p.N)
        chosen = given.get("stride", stride)
        return {"stride": stride, "c": min(8, chosen) if isinstance(chosen, int) and chosen > 0 else 8}

    def start(self, head: int) -> int:
        """Return the first cell of a head's sub-block."""
        return self.stride - self.c * (1 + (head % (self.stride // self.c) if self.distinct else 0))

    def first(self, i: Tensor, j: Tensor) -> Tensor:
        """Say whether ⌊j / l⌋ = ⌊i / l⌋."""
        return i // self.stride == j // self.stride

    def second(self, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say whether j mod l is in the head's sub-block."""
        start = self.stride - self.c * (1 + (h % (self.stride // self.c) if self.distinct else torch.zeros_like(h)))
        cell = (j % self.stride).expand(torch.broadcast_shapes(i.shape, j.shape))
        return (cell >= start) & (cell < start + self.c)

    def first_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return one band within each block."""
        return (Part(heads, (self._own(shape),)),)

    def second_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the summary of other blocks, and the head's cells of the own one."""
        together: dict[int, list[int]] = {}
        for head in heads:
            together.setdefault(self.start(head), []).append(head)
        return tuple(self._second(shape, start, tuple(group)) for start, group in together.items())

    def merged_parts(self, shape: Shape, heads: tuple[int, ...]) -> tuple[Part, ...]:
        """Return the own block, and the summary of the others; heads with equally long summaries are one part."""
        together: dict[int, list[int]] = {}
        for head in heads:
            together.setdefault(self._count(shape, head), []).append(head)
        return tuple(self._merged(shape, tuple(group)) for group in together.values())

    def _second(self, shape: Shape, start: int, heads: tuple[int, ...]) -> Part:
        bands, summary = self._summaries(shape, heads)
        return Part(heads, (self._own_cells(shape, start), *bands), summary)

    def _merged(self, shape: Shape, heads: tuple[int, ...]) -> Part:
        bands, summary = self._summaries(shape, heads)
        return Part(heads, (self._own(shape), *bands), summary)

    def _own(self, shape: Shape) -> Band:
        N, low = shape.N, 0 if shape.causal else None
        return Band(self.stride, (0, N), (0, N), low, groups=-(-N // self.stride), apart=self.stride)

    def _own_cells(self, shape: Shape, start: int) -> Band:
        return replace(self._own(shape), cells=(start, start + self.c))

    def _summaries(self, shape: Shape, heads: tuple[int, ...]) -> tuple[tuple[Band, ...], Summary]:
        """Return bands over the summary of earlier blocks and, without causality, of later ones."""
        N, count = shape.N, self._count(shape, heads[0])
        summary = Summary(self.stride, self.c, tuple(self.start(h) for h in heads), count)
        limits: list[tuple[int | None, int | None]] = [(1, None)] if shape.causal else [(1, None), (None, -1)]
        bands = (
            Band(N, (0, N), (0, count), low, high, query_unit=self.stride, key_unit=self.c, summary=True)
            for low, high in limits
        )
        return tuple(bands), summary

    def _count(self, shape: Shape, head: int) -> int:
        """Count the cells of all blocks or, if causal, of all but the last, which no other block sees."""
        blocks, rest = divmod(shape.N, self.stride)
        if shape.causal:
            return self.c * (blocks - (rest == 0))
        return self.c * blocks + min(self.c, max(0, rest - self.start(head)))


def near(shape: Shape, reach: int) -> Band:
    """Return the band of tokens at most `reach` away and, if causal, not later."""
    return Band(shape.N, (0, shape.N), (0, shape.N), 0 if shape.causal else -reach, reach)


def within_residues(shape: Shape, stride: int, low: int | None, high: int | None = None) -> Band:
    """Return the band of tokens low … high steps of `stride` before."""
    N = shape.N
    return Band(-(-N // stride), (0, N), (0, N), low, high, groups=min(stride, N), apart=1, stride=stride)
