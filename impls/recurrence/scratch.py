"""What the walk of linear.py allocates on a CPU, beside its results, where decays are slow (factored.py): for predictions.

X rows (batch and heads folded), N tokens, S chunks of L tokens in a part, R = X S L, D query/key width, M value width;
G = 1 or D decays.
"""

from dataclasses import dataclass

import torch

from .parts import ROWS_TOGETHER, Part, parts


@dataclass(frozen=True)
class Scratch:
    """Bytes of X rows of N tokens, `element` of them each input's, `sum` each sum's."""

    X: int
    N: int
    D: int
    M: int
    chunk: int
    element: int
    G: int = 1
    by_token: bool = True
    """Whether each token has decays of its own."""

    @property
    def sum(self) -> int:
        """Bytes of a number in a state, and in all that a part is computed with."""
        return max(4, self.element)

    @property
    def states(self) -> float:
        """One state of each row."""
        return float(self.X * self.D * self.M * self.sum)

    @property
    def kept(self) -> float:
        """The states that parts meet, with which the backward begins, and those it moves."""
        return (len(self._walk) + 3) * self.states

    @property
    def forward(self) -> float:
        """At the worst moment of a part: when states are put together, or when pairs are made."""
        R, states = self._sizes
        return self.sum * (self._inputs + max(3 * states, states + R * self.M, R * (self.M + self._part.L)))

    @property
    def backward(self) -> float:
        """Likewise, on the way back: states once more, gradients of q and k, or those of decays."""
        R, states = self._sizes
        D, M, L = self.D, self.M, self._part.L
        by_pairs = self.by_token and self.G == 1
        # decays of tokens: their pairs, then a product with q; of rows: three times as many numbers as q, at the end
        through_pairs = 3 * states + R * (M + max(2 * L + by_pairs * L, L + (2 + by_pairs) * D))
        through_rows = 2 * states + R * (M + (2 + 3 * (self.by_token and self.G > 1)) * D)
        return self.sum * (self._inputs + R * M + max(4 * states, through_pairs, through_rows))

    @property
    def _inputs(self) -> float:
        """Numbers of one part: q and k with their decays, v where it is not whole already, and what is left."""
        whole = self._part.stop == self.N and self.element == self.sum
        return self._sizes[0] * (2 * self.D + (0 if whole else self.M) + (self.G if self.by_token else 0))

    @property
    def _sizes(self) -> tuple[int, float]:
        """R, and the numbers of all its states."""
        R = min(ROWS_TOGETHER, self.X) * (self._part.stop - self._part.start)
        return R, R / self._part.L * self.D * self.M

    @property
    def _part(self) -> Part:
        return self._walk[0]

    @property
    def _walk(self) -> list[Part]:
        return parts(torch.empty(min(ROWS_TOGETHER, self.X), self.N, self.D, device="meta"), self.M, self.chunk)
