"""A causal window over one head, cut into tiles with equal numbers of queries and keys.

R rows (samples of one head), N tokens, w keys of a window, L queries of a tile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_HEAD = 256
"""Number of queries of a tile at the start of the sequence, whose windows reach back to the first token."""
_TOGETHER = 2**13
"""Number of queries in one call of the kernel: its results stay in cache."""
_ROWS = 8
"""Least number of rows at once: the kernel's backward has one thread for each row and tile."""
_FORWARD = ((320, 32), (0, 64))
_BACKWARD = ((96, 32), (192, 64), (384, 128), (0, 256))
_PLAIN = ((64, 64), (0, 128))
"""Pairs (widest window, queries of its tiles), the last for all wider windows.

Measured for sparse windows on a CPU, except _PLAIN, for devices without the fused kernel.
"""


@dataclass(frozen=True)
class Tiles:
    """Tiles of `length` queries, `count` of them from token `first` on; the first has `width` keys from `key` on."""

    first: int
    count: int
    length: int
    key: int
    width: int

    def queries(self, x: Tensor) -> Tensor:
        """Cut queries into tiles: [R, N, ...] -> [R, count, length, ...], a view."""
        grid: Tensor = x[:, self.first : self.first + self.count * self.length].unflatten(1, (self.count, self.length))
        return grid

    def keys(self, x: Tensor) -> Tensor:
        """Cut keys into overlapping tiles: [R, N, C] -> [R, count, width, C], a view."""
        return self._keys(x, 0, self.width)

    def add_keys(self, x: Tensor, part: Tensor) -> None:
        """Add tiles [R, count, width, C] to [R, N, C], in cuts that do not overlap."""
        for start in range(0, self.width, self.length):
            stop = min(start + self.length, self.width)
            self._keys(x, start, stop).add_(part[:, :, start:stop])

    def bias(self, table: Tensor, window: int) -> Tensor:
        """Select these tiles' part [length, width] of the result of `table_of`, a view."""
        start = window - 1 - (self.first - self.key)
        return table[: self.length, start : start + self.width]

    def _keys(self, x: Tensor, start: int, stop: int) -> Tensor:
        key = self.key + start
        return x[:, key : key + (self.count - 1) * self.length + stop - start].unfold(1, stop - start, self.length).mT


def tiles(N: int, window: int, length: int, rows: int) -> list[Tiles]:
    """Cut all N queries: first those that see all before them, then full windows, then a shorter tile."""
    head = min(N, window - 1)
    count, rest = divmod(N - head, length)
    found = [Tiles(a, 1, min(_HEAD, head - a), 0, min(a + _HEAD, head)) for a in range(0, head, _HEAD)]
    step = max(1, _TOGETHER // (rows * length))
    for y in range(0, count, step):
        first = head + y * length
        found.append(Tiles(first, min(step, count - y), length, first - window + 1, window - 1 + length))
    if rest:
        found.append(Tiles(N - rest, 1, rest, N - rest - window + 1, window - 1 + rest))
    return found


def table_of(penalty: Tensor, work: list[Tiles]) -> Tensor:
    """Tabulate what is added to scores: penalty[i - j], and -inf outside; [L, w - 1 + L] for the longest tile's L."""
    L, window = max(t.length for t in work), len(penalty)
    # each row is the previous one shifted by one, so rows are overlapping views of one line, read backwards
    line = F.pad(penalty.flip(0), (L - 1, L - 1), value=-torch.inf)
    return line.unfold(0, window - 1 + L, 1).flip(0)


def lengths(window: int, fused: bool) -> tuple[int, int]:
    """Choose how many queries a tile has, forward and backward."""
    first, second = (_FORWARD, _BACKWARD) if fused else (_PLAIN, _PLAIN)
    return _of_window(window, first), _of_window(window, second)


def turns(B: int, H: int, N: int) -> Iterator[tuple[slice, int]]:
    """Go through the heads, some samples at a time: indices that take [B, H, N, C] to [R, N, C]."""
    rows = max(_ROWS, _TOGETHER // N)
    for head in range(H):
        for start in range(0, B, rows):
            yield slice(start, min(start + rows, B)), head


def _of_window(window: int, choice: tuple[tuple[int, int], ...]) -> int:
    return next((length for widest, length in choice if window <= widest), choice[-1][1])
