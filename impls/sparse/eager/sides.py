"""k and v of the rows that are walked together, or their gradients, as rectangles use them.

B batch, H heads, K heads of k and v, N tokens, R rows (samples and heads, folded) of a walk, C cells of a summary.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..patterns.band import Summary
from .plan import Walk
from .rectangles import Lines, Rectangle
from .rows import walks


@dataclass(frozen=True)
class Turn:
    """A walk over some rows of q [B·H] and of k and v [B·K]; `cells` index their summaries in k and v, [R, 1] and [R, C]."""

    walk: Walk
    rows: range
    kv_rows: range
    cells: tuple[Tensor, Tensor] | None


def turns(way: tuple[Walk, ...], q: Tensor, heads: tuple[int, int]) -> Iterator[Turn]:
    """Go through all rows of q [B·H, N, D] in every walk; `heads` are H and K."""
    for walk in way:
        for rows, kv_rows in walks(q.shape[0] // heads[0], *heads, walk.heads, walk.rows):
            cells = None if walk.summary is None else _cells(walk.summary, walk.heads, rows, kv_rows, heads[0], q.device)
            yield Turn(walk, rows, kv_rows, cells)


# copying them to a GPU waits for it; a call may have as many turns
@lru_cache(maxsize=4096)
def _cells(
    summary: Summary, of: tuple[int, ...], rows: range, kv_rows: range, heads: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    place = {head: i for i, head in enumerate(of)}
    tokens = summary.tokens()[[place[row % heads] for row in rows]]
    return torch.tensor(kv_rows, device=device)[:, None], tokens.to(device)


@dataclass(frozen=True)
class Side:
    """One of k, v and their gradients: in its own order, and the cells of the summary in sequence, [R, C, ·]."""

    natural: Lines
    cells: tuple[Tensor, Tensor] | None
    summary: Lines | None

    @classmethod
    def reading(cls, x: Tensor, turn: Turn) -> "Side":
        """Read k or v, with its summary gathered."""
        summary = None if turn.cells is None else Lines(x[turn.cells], range(len(turn.rows)))
        return cls(Lines(x, turn.kv_rows), turn.cells, summary)

    @classmethod
    def summing(cls, x: Tensor, turn: Turn) -> "Side":
        """Prepare a gradient, with zeros for that of the summary."""
        if turn.cells is None:
            return cls(Lines(x, turn.kv_rows), None, None)
        zeros = x.new_zeros(*turn.cells[1].shape, x.shape[-1])
        return cls(Lines(x, turn.kv_rows), turn.cells, Lines(zeros, range(len(turn.rows))))

    def of(self, r: Rectangle) -> Lines:
        """Choose which of the two has a rectangle's keys."""
        return self.summary if r.summary and self.summary is not None else self.natural

    def grid(self, r: Rectangle) -> Tensor:
        """Select the keys of a rectangle, a view."""
        return self.of(r).grid(r.keys)

    def add(self, r: Rectangle, part: Tensor) -> None:
        """Add a part; overlapping tiles are added in cuts that do not overlap, always in the same order."""
        for cells, grid in r.keys.disjoint():
            self.of(r).grid(grid).add_(part[:, :, cells])

    def scatter(self) -> None:
        """Add the sums of the summary to the gradient in its own order; no cell is in the summary twice."""
        if self.summary is not None:
            x = self.natural.x
            x[self.cells] = x[self.cells].add_(self.summary.x)


def add(sides: Iterable[Side], r: Rectangle, parts: Iterable[Tensor]) -> None:
    """Add parts to both dk and dv."""
    for side, part in zip(sides, parts, strict=True):
        side.add(r, part)
