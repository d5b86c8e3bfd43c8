"""Padding: which rows of a batch begin at the same token, so that each such group is attended without any padding.

B rows, S tokens.
"""

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from attnbench.api import each_once
from attnbench.hf.refusals import CannotError


@dataclass(frozen=True)
class Rows:
    """Rows of a batch whose tokens are those from `start` up to `stop`; `at` is None where that is every row.

    Layers of a model may lie on other devices than the mask from which the rows are known.
    """

    at: Tensor | None
    start: int
    stop: int

    def of(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Select tokens of these rows: [B, heads, S, ·] -> [b, heads, stop - start, ·]."""
        return (x if self.at is None else x[self.at.to(x.device)])[:, :, start:stop]

    def of_each(self, inputs: tuple[Tensor, ...], start: int, stop: int) -> tuple[Tensor, ...]:
        """Select tokens of these rows in each input."""
        return each_once(inputs, lambda x: self.of(x, start, stop))

    def write(self, o: Tensor, into: Tensor, start: int, stop: int) -> None:
        """Write the output of these tokens, [b, heads, stop - start, ·], into that of the batch."""
        rows = slice(None) if self.at is None else self.at.to(into.device)
        into[rows, :, start:stop] = o


def rows_alike(seen: Tensor | None, S: int, *, causal: bool) -> list[Rows]:
    """Group the rows of a batch by where their tokens begin and end; `seen`, bool [B, S], is False for padding.

    Causally, padding behind the tokens hides itself, and rows end at S. Rows without a token are left out. Raises CannotError
    where there is padding between the tokens of a row.
    """
    if seen is None or bool(seen.all()):
        return [Rows(None, 0, S)]
    counts = seen.sum(1)
    firsts = torch.where(counts > 0, seen.int().argmax(1), S)
    lasts = S - seen.flip(1).int().argmax(1)
    if bool(((lasts - firsts != counts) & (counts > 0)).any()):
        raise CannotError("the attention mask hides tokens between others of their row; pad at the ends of rows only")
    stops = torch.full_like(lasts, S) if causal else lasts
    found = sorted((first, stop, b) for b, (first, stop) in enumerate(zip(firsts.tolist(), stops.tolist(), strict=True)))
    return [
        Rows(torch.tensor([b for *_, b in group], device=seen.device), first, stop)
        for (first, stop), group in groupby(found, key=lambda each: each[:2])
        if first < S
    ]
