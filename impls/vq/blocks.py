"""Sequences cut into blocks, and which of them a query sees key by key or through a table.

X rows (batch and heads folded), N tokens, L tokens of a block, T tables, n blocks of a stretch. Lingle 2023, theorems 3.4 and
3.7: causal, a query of block b sees blocks b and b - 1 key by key and the table after block b - 2; else one table of all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Stretch:
    """Query blocks `first` … `first + count`, each of `length` tokens: L, or fewer for a shorter last block alone."""

    first: int
    count: int
    length: int
    L: int
    causal: bool

    def own(self, x: Tensor) -> Tensor:
        """Select these blocks: [X, N, ...] -> [X, n, length, ...], a view."""
        start = self.first * self.L
        blocks: Tensor = x[:, start : start + self.count * self.length].unflatten(1, (self.count, self.length))
        return blocks

    def without(self, back: int) -> int:
        """Count these blocks' first ones that have no block `back` places before them."""
        return min(self.count, max(0, back - self.first)) if self.causal else 0

    def before(self, x: Tensor) -> Tensor:
        """Select the blocks before these, where they exist: [X, N, ...] -> [X, n - without(1), L, ...], a view."""
        start, stop = self.first + self.without(1) - 1, self.first + self.count - 1
        blocks: Tensor = x[:, start * self.L : stop * self.L].unflatten(1, (-1, self.L))
        return blocks

    def tables(self, x: Tensor) -> Tensor:
        """Select the tables that these blocks see: [X, T, ...] -> [X, n - without(2), ...], a view."""
        if not self.causal:
            return x.expand(-1, self.count, *(-1 for _ in x.shape[2:]))
        return x[:, self.first + self.without(2) - 2 : self.first + self.count - 2]

    def add_to_tables(self, into: Tensor, x: Tensor) -> None:
        """Add x to those of [X, T, ...] that belong to the tables that these blocks see."""
        if self.causal:
            self.tables(into).add_(x)
        else:
            into.add_(x.sum(1, keepdim=True))


@dataclass(frozen=True)
class Blocks:
    """N tokens in blocks of L <= N; the last may be shorter."""

    N: int
    L: int
    causal: bool

    @classmethod
    def of(cls, N: int, L: int, *, causal: bool) -> "Blocks":
        """Cut N tokens into blocks of L, or into one if L is larger."""
        return cls(N, min(N, L), causal)

    @property
    def tables(self) -> int:
        """Count the tables, T: one after each block that leaves the window, or one of all tokens."""
        return max(0, -(-self.N // self.L) - 2) if self.causal else 1

    @property
    def absorbed(self) -> int:
        """Count the tokens in the last table."""
        return self.tables * self.L if self.causal else self.N

    def stretches(self, at_once: int) -> Iterator[Stretch]:
        """Go through all blocks, `at_once` at a time."""
        whole, rest = divmod(self.N, self.L)
        for first in range(0, whole, at_once):
            yield Stretch(first, min(at_once, whole - first), self.L, self.L, self.causal)
        if rest:
            yield Stretch(whole, 1, rest, self.L, self.causal)
