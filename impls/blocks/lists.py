"""For each block, the queries that chose it: the transpose of the choices.

X samples and heads of k, G of them at a time, R heads of q that share one, N tokens, E blocks chosen by a query, C blocks that
can be chosen, n queries of a stretch. Flat numbers of queries are those of [X, R, N].
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .room import HEADS, QUERIES, at_once

SORTED = 2**17
"""Choices that are sorted at a time: some hundred thousand make a radix sort worth its start."""


@dataclass(frozen=True)
class Stretch:
    """Some of the queries that chose one block: of G heads as many as of the one that has most, [G R n].

    `read` is a query in any case; `write` is one beyond the last where there is none.
    """

    heads: slice
    keys: slice
    read: Tensor
    write: Tensor

    def queries(self, x: Tensor) -> Tensor:
        """Of [X, R, N, D], a copy: [G, 1, R n, D]."""
        return x.flatten(0, 2).index_select(0, self.read).view(self._heads, 1, -1, x.shape[-1])

    def written(self, x: Tensor) -> Tensor:
        """Of one number for each query and one beyond, [X R N + 1], a copy: [G, 1, R n]."""
        return x.index_select(0, self.write).view(self._heads, 1, -1)

    def block(self, x: Tensor) -> Tensor:
        """Of [X, N, D], a view: [G, 1, L, D]."""
        return x[self.heads, self.keys].unsqueeze(1)

    @property
    def _heads(self) -> int:
        count: int = self.heads.stop - self.heads.start
        return count


@dataclass(frozen=True)
class _Lists:
    """Of G heads: queries by block, int32 [G, N E], and where the list of each block begins, [G, C + 1]."""

    order: Tensor
    starts: Tensor

    def longest(self) -> list[int]:
        """Queries of each block, of the head that has most."""
        counts: list[int] = self.starts.diff(dim=1).amax(0).tolist()
        return counts

    def part(self, block: int, a: int, b: int) -> tuple[Tensor, Tensor]:
        """Queries a … b of the list of a block, [G, n], and whether there is one."""
        place = self.starts[:, block, None] + torch.arange(a, b, device=self.order.device)
        present = place < self.starts[:, block + 1, None]
        return self.order.gather(1, place.clamp_(max=self.order.shape[1] - 1)), present


def stretches(chosen: Tensor, R: int, block: int) -> Iterator[Stretch]:
    """Everything that was chosen, int [X, N, E], negative where nothing: each block with its queries, some at a time."""
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
    """Heads of k, and the queries of each of the R heads that share one, that are attended at a time."""
    step = min(heads_of_k, max(1, heads // R))
    return step, max(1, queries // (step * R))


def _offsets(heads: slice, R: int, N: int, device: torch.device) -> Tensor:
    """Number of the first query of each head of q, [G, R, 1]."""
    return torch.arange(heads.start * R, heads.stop * R, device=device).view(-1, R, 1) * N


def _by_block(chosen: Tensor, C: int) -> _Lists:
    """[G, N, E] -> the lists; within each the queries stand in order."""
    flat, count = chosen.flatten(1), len(chosen)
    order = torch.empty(flat.shape, dtype=torch.int32, device=chosen.device)
    starts = torch.empty(count, C + 1, dtype=torch.int64, device=chosen.device)
    step = max(1, at_once(chosen, SORTED) // flat.shape[1])
    for heads in (slice(a, a + step) for a in range(0, count, step)):
        _sort_into(order[heads], starts[heads], flat[heads])
    # from a choice to the query that made it
    return _Lists(order.floor_divide_(chosen.shape[2]), starts)


def _sort_into(order: Tensor, starts: Tensor, chosen: Tensor) -> None:
    """One flat row of small integers: torch has a radix sort for that. [G, N E] choices."""
    C = starts.shape[1] - 1
    row = torch.arange(len(chosen), dtype=torch.int32, device=chosen.device).unsqueeze(1)
    keys = torch.where(chosen < 0, C, chosen).int().add_(row * (C + 1))
    values, indices = keys.flatten().sort(stable=True)
    order.copy_(indices.view_as(chosen).sub_(row * chosen.shape[1]))
    blocks = torch.arange(C + 1, dtype=torch.int32, device=chosen.device)
    starts.copy_(torch.searchsorted(values.view_as(chosen), blocks + row * (C + 1)))
