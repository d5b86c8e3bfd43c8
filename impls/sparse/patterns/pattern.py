"""Patterns of visible keys, defined twice: once as they are printed, and once as bands that fast code can walk.

i queries, j keys, h heads, N tokens.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from attnbench.api import Problem, Scalar

from .band import Part


@dataclass(frozen=True)
class Shape:
    """The facts of a problem that a pattern needs to know."""

    N: int
    H: int
    causal: bool

    @classmethod
    def of(cls, p: Problem) -> Self:
        """Return the shape of a problem."""
        return cls(p.N, p.H, p.causal)


@dataclass(frozen=True)
class Pattern(ABC):
    """The parameters of a pattern; `of` fills in defaults that follow from the length.

    Raises ValueError on bad values. A pattern is not bound to a length: `seen` and `parts` take it, so that a prompt has the
    pattern of the whole sequence.
    """

    @classmethod
    def of(cls, p: Problem, params: dict[str, Scalar]) -> Self:
        """Build the pattern from these parameters and the problem's defaults. Raises TypeError or ValueError on bad ones."""
        known = {f.name for f in fields(cls)}
        if strange := [name for name in params if name not in known]:
            raise TypeError(f"unknown parameter {strange[0]!r}; this pattern has {', '.join(sorted(known))}")
        return cls(**{**cls.defaults(p, params), **params})

    @classmethod
    def defaults(cls, p: Problem, given: dict[str, Scalar]) -> dict[str, Scalar]:  # noqa: ARG003 - most need none of it
        """Return parameters that follow from the problem, and from those given."""
        return {}

    @property
    def span(self) -> int:
        """Return the tokens of its longest part: the largest of its lengths."""
        return max(x for f in fields(self) if isinstance(x := getattr(self, f.name), int))

    @abstractmethod
    def sees(self, shape: Shape, i: Tensor, j: Tensor, h: Tensor) -> Tensor:
        """Say whether query i of head h may see key j, as printed, without causality; int64, broadcast -> bool."""

    @abstractmethod
    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the same, with causality, as disjoint bands; each head is in one part."""

    def seen(self, shape: Shape, device: torch.device | str = "cpu") -> Tensor:
        """Build the dense mask of the definition: bool [H, N, N], True where a key is seen."""
        i = torch.arange(shape.N, device=device)[:, None]
        j = torch.arange(shape.N, device=device)
        h = torch.arange(shape.H, device=device)[:, None, None]
        mask = self.sees(shape, i, j, h).expand(shape.H, shape.N, shape.N)
        return mask & (j <= i) if shape.causal else mask


def nearest_power_of_root(N: int) -> int:
    """Return the power of two nearest √N: strides and blocks of this length cost N √N."""
    root = N**0.5
    below = 1 << max(0, int(root).bit_length() - 1)
    return below if root - below <= 2 * below - root else 2 * below


def whole(value: object, name: str, least: int = 1) -> None:
    """Raise ValueError unless the value is a whole number of `least` or more, below 2^31 so that products fit into int64."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
    if value >= 1 << 31:
        raise ValueError(f"{name}={value!r}: must be below 2^31")


def one_of(value: object, name: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: must be {', '.join(allowed[:-1])} or {allowed[-1]}")
