"""Patterns of neighbours: the local and atrous halves of the strided one, sliding windows, and windows with global tokens.

i queries, j keys, h heads, N tokens.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from attnbench.api import Problem, Scalar

from .band import Band, Part
from .factorised import CONVENTIONS, near, within_residues
from .pattern import Pattern, Shape, nearest_power_of_root, one_of, whole


@dataclass(frozen=True)
class Local(Pattern):
    """The first pattern of Strided alone: keys i - stride … i (convention paper), or without the first of them (code)."""

    stride: int
    convention: str = "paper"

    def __post_init__(self) -> None:
        whole(self.stride, "stride")
        one_of(self.convention, "convention", CONVENTIONS)

    @classmethod
    def defaults(cls, p: Problem, given: dict[str, Scalar]) -> dict[str, Scalar]:  # noqa: ARG003
        """Default to the stride nearest √N."""
        return {"stride": nearest_power_of_root(p.N)}

    @property
    def reach(self) -> int:
        """Return how far back a query sees."""
        return self.stride - (self.convention == "code")

    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:  # noqa: ARG002 - the same for all
        """Say whether |i - j| <= l, or < l."""
        return ((i - j).abs() <= self.reach) & (h >= 0)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one band."""
        return (Part(tuple(range(shape.H)), (near(shape, self.reach),)),)


@dataclass(frozen=True)
class Atrous(Pattern):
    """Every stride-th token, (i - j) mod l = 0; with `reach` only the nearest that many on each side."""

    stride: int
    reach: int | None = None

    def __post_init__(self) -> None:
        whole(self.stride, "stride")
        if self.reach is not None:
            whole(self.reach, "reach", least=0)

    @classmethod
    def defaults(cls, p: Problem, given: dict[str, Scalar]) -> dict[str, Scalar]:  # noqa: ARG003
        """Default to the stride nearest √N."""
        return {"stride": nearest_power_of_root(p.N)}

    @property
    def span(self) -> int:
        """Return how many tokens it reaches, or one stride."""
        return self.stride * (self.reach or 1)

    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say whether (i - j) mod l = 0 and |i - j| <= l * reach."""
        reach = shape.N if self.reach is None else self.reach
        return ((i - j) % self.stride == 0) & ((i - j).abs() <= self.stride * reach) & (h >= 0)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one band within each residue."""
        low = 0 if shape.causal else None if self.reach is None else -self.reach
        return (Part(tuple(range(shape.H)), (within_residues(shape, self.stride, low, self.reach),)),)


@dataclass(frozen=True)
class Window(Pattern):
    """A sliding window: causal the last `window` tokens, i - w + 1 … i; else |i - j| <= ⌊w / 2⌋ (Beltagy et al. 2020)."""

    window: int = 256

    def __post_init__(self) -> None:
        whole(self.window, "window")

    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say whether the distance is within the window."""
        return ((i - j).abs() <= _reach(self.window, shape)) & (h >= 0)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one band."""
        return (Part(tuple(range(shape.H)), (near(shape, _reach(self.window, shape)),)),)


@dataclass(frozen=True)
class Longformer(Pattern):
    """A dilated sliding window and global tokens (Beltagy et al. 2020, section 3.1).

    A query sees as many tokens as with Window, but those of its residue mod `dilation`. The first `globals` tokens see all and
    are seen by all (causal: all before). `dilated_heads`: only that many heads, the last ones, are dilated; by default all. The
    separate projections that the paper gives to global tokens belong to the model.
    """

    window: int = 256
    dilation: int = 1
    globals: int = 1
    dilated_heads: int | None = None

    def __post_init__(self) -> None:
        whole(self.window, "window")
        whole(self.dilation, "dilation")
        whole(self.globals, "globals", least=0)
        if self.dilated_heads is not None:
            whole(self.dilated_heads, "dilated_heads", least=0)

    @property
    def span(self) -> int:
        """Return the length of the dilated window, or the number of global tokens if there are more."""
        return max(self.window * self.dilation, self.globals)

    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say whether one is global, or the key is in the window of the head's dilation."""
        d = (h >= self._plain_heads(shape)) * (self.dilation - 1) + 1
        near = ((i - j) % d == 0) & ((i - j).abs() <= d * _reach(self.window, shape))
        return (i < self.globals) | (j < self.globals) | near

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return plain heads, then dilated ones."""
        heads, plain = tuple(range(shape.H)), self._plain_heads(shape)
        groups = ((heads[:plain], 1), (heads[plain:], self.dilation))
        return tuple(Part(group, self._bands(shape, d)) for group, d in groups if group)

    def _plain_heads(self, shape: Shape) -> int:
        return 0 if self.dilated_heads is None else max(0, shape.H - self.dilated_heads)

    def _bands(self, shape: Shape, d: int) -> tuple[Band, ...]:
        """Return the window among the other tokens, and both sides of the global ones."""
        N, first, reach = shape.N, min(self.globals, shape.N), _reach(self.window, shape)
        others, low = (first, N), 0 if shape.causal else -reach
        window = replace(within_residues(shape, d, low, reach), queries=others, keys=others)
        if not first:
            return (window,)
        sees_all = Band(N, (0, first), (0, N), 0 if shape.causal else None)
        return window, Band(N, others, (0, first), None), sees_all


def _reach(window: int, shape: Shape) -> int:
    return window - 1 if shape.causal else window // 2
