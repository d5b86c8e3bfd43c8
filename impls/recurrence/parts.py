"""Cutting sequences into parts whose intermediate tensors stay in cache.

X rows (batch and heads of k and v folded), R heads of q for each, N tokens, S chunks of L tokens in a part.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROWS_TOGETHER = 8
"""Least number of rows that are walked together: enough for every core, few enough that their states stay in cache."""
TOKENS = 4096
"""Rows of queries times tokens of a part on a CPU, for widths up to 128: a few MB in float32 for each intermediate tensor."""
_TOKENS_ELSEWHERE = 2**18  # a GPU needs no such cache and wants large products


@dataclass(frozen=True)
class Part:
    """Tokens start … stop, in chunks of L."""

    start: int
    stop: int
    L: int

    def of(self, x: Tensor) -> Tensor:
        """Select the part of [X, R, N, ·] as a view [S, X, R, L, ·]."""
        chunks: Tensor = x[:, :, self.start : self.stop].unflatten(2, (-1, self.L))
        return chunks.movedim(2, 0)

    def put(self, x: Tensor, rows: Tensor) -> None:
        """Copy rows [S, X, R L, ·] to their place in [X, R, N, ·]."""
        place = self.of(x)
        place.copy_(rows.view(place.shape))


def groups(q: Tensor) -> list[slice]:
    """Cut the rows of q [X, R, N, ·] into groups; each is walked from end to end before the next."""
    rows, R, N, _ = q.shape
    step = max(1, rows) if q.is_cuda else max(ROWS_TOGETHER, TOKENS // max(1, R * N))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def dense(x: Tensor, kind: torch.dtype) -> Tensor:
    """Lay the rows of a part in one piece: [S, X, R, L, ·] -> [S, X, R L, ·]."""
    # products read rows of all chunks at once and would copy them each time if they were not dense
    laid = x if x.dtype is kind and x.is_contiguous() else room(x, kind).copy_(x)
    return laid.flatten(2, 3)


def room(x: Tensor, kind: torch.dtype) -> Tensor:
    """Make dense memory of the shape of x."""
    return torch.empty_like(x, dtype=kind, memory_format=torch.contiguous_format)


def parts(q: Tensor, M: int, chunk: int) -> list[Part]:
    """Cut the tokens of q [X, R, N, D] into parts of whole chunks, and a shorter chunk at the end; nothing is padded.

    Widths above 128 make parts shorter.
    """
    N, D = q.shape[2:]
    rows = q.shape[0] * q.shape[1]
    tokens = (_TOKENS_ELSEWHERE if q.is_cuda else TOKENS) * 128 // max(128, D, M)
    step = max(1, tokens // (rows * chunk)) * chunk
    whole = N - N % chunk
    cut = [Part(start, min(start + step, whole), chunk) for start in range(0, whole, step)]
    return cut if whole == N else [*cut, Part(whole, N, N - whole)]


def sums(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of states and of sums: float32 at least."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def refuse_bad_chunk(chunk: int) -> None:
    """Raise ValueError unless chunk is a whole number of tokens, at least 1."""
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk={chunk!r}: it counts tokens and must be a whole number, 1 or more")


def refuse_bad_scale(scale: float) -> None:
    """Raise ValueError unless scale is a finite number."""
    if isinstance(scale, bool | str) or not math.isfinite(scale):
        raise ValueError(f"scale={scale!r}: the output is multiplied by it and it must be a finite number")
