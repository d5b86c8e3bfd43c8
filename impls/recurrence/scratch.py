"""Predicted bytes that the walk of linear.py allocates on a CPU beside its results, where decays are slow (factored.py).

X rows (batch and heads folded), N tokens, S chunks of L tokens in a part, R = X S L, D query/key width, M value width; G = 1 or
D decays.
"""

from dataclasses import dataclass

import torch

from .parts import ROWS_TOGETHER, Part, parts


@dataclass(frozen=True)
class Scratch:
    """Sizes of a walk over X rows of N tokens; a number of the inputs has `element` bytes."""

    X: int
    N: int
    D: int
    M: int
    chunk: int
    element: int
    G: int = 1
    by_token: bool = True
    """Whether each token has its own decays."""

    @property
    def sum(self) -> int:
        """Return the bytes of a number in a state, and in all that a part is computed with."""
        return max(4, self.element)

    @property
    def states(self) -> float:
        """Count the bytes of one state for each row."""
        return float(self.X * self.D * self.M * self.sum)

    @property
    def kept(self) -> float:
        """Count the bytes of the states before parts, with which the backward begins, and of three more that it moves."""
        return (len(self._walk) + 3) * self.states

    @property
    def forward(self) -> float:
        """Count the bytes at a part's peak: when states are put together, or when pairs are made."""
        R, states = self._sizes
        return self.sum * (self._inputs + max(3 * states, states + R * self.M, R * (self.M + self._part.L)))

    @property
    def backward(self) -> float:
        """Count the bytes at a part's peak in the backward: states, gradients of q and k, or those of decays."""
        R, states = self._sizes
        D, M, L = self.D, self.M, self._part.L
        by_pairs = self.by_token and self.G == 1
        # decays by token: their pairs, then a product with q; by row: three times as many numbers as q, at the end
        through_pairs = 3 * states + R * (M + max(2 * L + by_pairs * L, L + (2 + by_pairs) * D))
        through_rows = 2 * states + R * (M + (2 + 3 * (self.by_token and self.G > 1)) * D)
        return self.sum * (self._inputs + R * M + max(4 * states, through_pairs, through_rows))

    @property
    def _inputs(self) -> float:
        """Count the numbers of a part's inputs: q and k with decays, v unless it is used as given, and the factors left."""
        whole = self._part.stop == self.N and self.element == self.sum
        return self._sizes[0] * (2 * self.D + (0 if whole else self.M) + (self.G if self.by_token else 0))

    @property
    def _sizes(self) -> tuple[int, float]:
        """Compute R, and the count of numbers in all its states."""
        R = min(ROWS_TOGETHER, self.X) * (self._part.stop - self._part.start)
        return R, R / self._part.L * self.D * self.M

    @property
    def _part(self) -> Part:
        return self._walk[0]

    @property
    def _walk(self) -> list[Part]:
        return parts(torch.empty(min(ROWS_TOGETHER, self.X), self.N, self.D, device="meta"), self.M, self.chunk)
