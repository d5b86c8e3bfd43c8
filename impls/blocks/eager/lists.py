"""List for each block the queries that chose it: the transpose of the choices.

X samples and heads of k, G of them at a time, R heads of q that share one, N tokens, E blocks chosen by a query, C blocks that
can be chosen, n queries of a stretch. Queries are numbered flatly, as in [X, R, N].
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .room import HEADS, QUERIES, at_once

SORTED = 2**17
"""Number of choices sorted at a time: enough that starting torch's radix sort pays off."""


@dataclass(frozen=True)
class Stretch:
    """A part of one block's lists: n queries of each of G R heads, as flat numbers [G R n].

    Lists shorter than the longest are padded. For padding `read` names some query, and `write` the row after the last one.
    """

    heads: slice
    keys: slice
    read: Tensor
    write: Tensor

    def queries(self, x: Tensor) -> Tensor:
        """Gather the queries' rows of [X, R, N, D]: [G, 1, R n, D], a copy."""
        return x.flatten(0, 2).index_select(0, self.read).view(self._heads, 1, -1, x.shape[-1])

    def written(self, x: Tensor) -> Tensor:
        """Gather one number for each query from [X R N + 1], where padding reads the last: [G, 1, R n], a copy."""
        return x.index_select(0, self.write).view(self._heads, 1, -1)

    def block(self, x: Tensor) -> Tensor:
        """Select the keys or values of the block from [X, N, D]: [G, 1, L, D], a view."""
        return x[self.heads, self.keys].unsqueeze(1)

    @property
    def _heads(self) -> int:
        count: int = self.heads.stop - self.heads.start
        return count


@dataclass(frozen=True)
class _Lists:
    """The lists of G heads: queries sorted by block, int32 [G, N E], and where each block's list begins, [G, C + 1]."""

    order: Tensor
    starts: Tensor

    def longest(self) -> list[int]:
        """Count the queries of each block in the head where it has most."""
        counts: list[int] = self.starts.diff(dim=1).amax(0).tolist()
        return counts

    def part(self, block: int, a: int, b: int) -> tuple[Tensor, Tensor]:
        """Read entries a … b of a block's list in each head: queries [G, n], and whether they exist, bool [G, n]."""
        place = self.starts[:, block, None] + torch.arange(a, b, device=self.order.device)
        present = place < self.starts[:, block + 1, None]
        return self.order.gather(1, place.clamp_(max=self.order.shape[1] - 1)), present


def stretches(chosen: Tensor, R: int, block: int) -> Iterator[Stretch]:
    """Go through all choices, int [X, N, E] (negative: none), block by block, some of its queries at a time."""
    heads_of_k, N = chosen.shape[:2]
    C, last = (N - 1) // block, heads_of_k * R * N
    if C == 0 or chosen.shape[2] == 0:
        return
    step, tokens = together(heads_of_k, R, at_once(chosen, HEADS), at_once(chosen, QUERIES))
    for heads in (slice(a, min(a + step, heads_of_k)) for a in range(0, heads_of_k, step)):
        lists, offsets = _by_block(chosen[heads], C), _offsets(heads, R, N, chosen.device)
        for c, count in enumerate(lists.longest()):
            for a in range(0, count, tokens):
                token, present = lists.part(c, a, min(a + tokens, count))
                read = offsets + token.unsqueeze(1)
                write = read.masked_fill(~present.unsqueeze(1), last)
                yield Stretch(heads, slice(c * block, (c + 1) * block), read.flatten(), write.flatten())


def together(heads_of_k: int, R: int, heads: int, queries: int) -> tuple[int, int]:
    """Count the heads of k that are attended at a time, and the queries of each of the R heads that share one."""
    step = min(heads_of_k, max(1, heads // R))
    return step, max(1, queries // (step * R))


def _offsets(heads: slice, R: int, N: int, device: torch.device) -> Tensor:
    """Number the first query of each head of q: [G, R, 1]."""
    return torch.arange(heads.start * R, heads.stop * R, device=device).view(-1, R, 1) * N


def _by_block(chosen: Tensor, C: int) -> _Lists:
    """Sort choices [G, N, E] into lists, in each of which the queries stand in order."""
    flat, count = chosen.flatten(1), len(chosen)
    order = torch.empty(flat.shape, dtype=torch.int32, device=chosen.device)
    starts = torch.empty(count, C + 1, dtype=torch.int64, device=chosen.device)
    step = max(1, at_once(chosen, SORTED) // flat.shape[1])
    for heads in (slice(a, a + step) for a in range(0, count, step)):
        _sort_into(order[heads], starts[heads], flat[heads])
    # a choice's number, divided by E, is the query that made it
    return _Lists(order.floor_divide_(chosen.shape[2]), starts)


def _sort_into(order: Tensor, starts: Tensor, chosen: Tensor) -> None:
    """Sort the choices [G, N E] of a few heads as one flat row of small integers, for which torch has a radix sort."""
    C = starts.shape[1] - 1
    row = torch.arange(len(chosen), dtype=torch.int32, device=chosen.device).unsqueeze(1)
    keys = torch.where(chosen < 0, C, chosen).int().add_(row * (C + 1))
    values, indices = keys.flatten().sort(stable=True)
    order.copy_(indices.view_as(chosen).sub_(row * chosen.shape[1]))
    blocks = torch.arange(C + 1, dtype=torch.int32, device=chosen.device)
    starts.copy_(torch.searchsorted(values.view_as(chosen), blocks + row * (C + 1)))
