"""Cutting sequences into segments whose intermediate tensors stay in cache.

B batch and heads of k folded, R heads of q that share one, N tokens, T = S L tokens of one segment in S chunks of L tokens, C
width of φ, M value width, W = M + 1 rounded up to 8: values, a column of ones for the denominator, zeros.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

HEADS = 8
"""Least number of heads that are walked together: enough for every core, few enough that their states stay in cache."""
ROWS = 4096
"""B·T of one segment on a CPU, at C ≤ 128: a few MB in float32, measured best of 512 … 16384 and of the whole sequence."""
_ROWS_ELSEWHERE = 2**18  # a GPU needs no such cache and wants large products


@dataclass(frozen=True)
class Segment:
    """Tokens start … stop, in chunks of `chunk` tokens."""

    start: int
    stop: int
    chunk: int

    def of(self, x: Tensor) -> Tensor:
        """Select the segment of [B, N, ·], a view."""
        return x[:, self.start : self.stop]

    def chunks(self, x: Tensor) -> Tensor:
        """Cut into chunks: [B, T, ·] -> [BS, L, ·], and the queries of R heads [B, T, R, ·] -> [BS, L R, ·]."""
        return x.reshape(-1, self.chunk * x.shape[2:-1].numel(), x.shape[-1])


def groups(x: Tensor) -> list[slice]:
    """Cut the samples and heads of x, [B, N, ·] or [B, N, R, ·], into groups, of which each is walked before the next."""
    B, R = x.shape[0], x.shape[2:-1].numel()
    step = max(1, B) if x.is_cuda else max(1, HEADS // R, ROWS // max(1, R * x.shape[1]))
    return [slice(start, min(start + step, B)) for start in range(0, B, step)]


def segments(x: Tensor, C: int, chunk: int) -> list[Segment]:
    """Cut the tokens of x [B, N, R, D] into segments of whole chunks, and a shorter chunk at the end; nothing is padded."""
    B, N, R, _ = x.shape
    step = max(1, rows_at_once(x, C) // (B * R * chunk)) * chunk
    whole = N - N % chunk
    cut = [Segment(start, min(start + step, whole), chunk) for start in range(0, whole, step)]
    return cut if whole == N else [*cut, Segment(whole, N, N - whole)]


def whole_segments(x: Tensor, C: int) -> list[Segment]:
    """Cut the tokens of x [B, N, D] into segments that are one chunk each, for the forms that need no mask."""
    B, N, _ = x.shape
    step = max(1, rows_at_once(x, C) // B)
    return [Segment(start, min(start + step, N), min(step, N - start)) for start in range(0, N, step)]


def rows_at_once(x: Tensor, C: int) -> int:
    """Choose B·T: less where φ is wide, so that its values stay in cache and take at most twice the room of x [B, N, D]."""
    rows = _ROWS_ELSEWHERE if x.is_cuda else ROWS
    return max(1, min(rows * 128 // max(128, C), 2 * x.numel() // C))


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of sums along the whole sequence: float32 at least."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def width(M: int) -> int:
    """Return W, with room for the column of ones, rounded up to 8 to keep rows aligned for tensor cores."""
    return -(-(M + 1) // 8) * 8


class Widened:
    """Memory for [x | a | 0] of one segment after the other: each overwrites the one before."""

    def __init__(self, parts: list[Segment], x: Tensor, dtype: torch.dtype, wide: int | None = None) -> None:
        rows = max((segment.of(x).shape[:-1].numel() for segment in parts), default=0)
        self.rows, self.M = x.new_zeros(rows, wide or width(x.shape[-1]), dtype=dtype), x.shape[-1]

    def room(self, part: Tensor) -> Tensor:
        """Select memory for the rows of a segment of x: [..., M] -> [..., W], zeros beyond column M."""
        rows = part.shape[:-1]
        return self.rows[: rows.numel()].view(*rows, -1)

    def values(self, segment: Segment, v: Tensor, mask: Tensor | None) -> Tensor:
        """Write [v | 1 | 0], and 0 in rows of hidden keys: [B, N, M] -> [B, T, W]; its sums carry the denominator along."""
        x = self.room(segment.of(v))
        x[..., : self.M] = segment.of(v)
        x[..., self.M] = 1
        return x if mask is None else x.mul_(segment.of(mask))

    def through_division(self, segment: Segment, g: Tensor, out: Tensor, denominators: Tensor) -> Tensor:
        """Compute dL/d[numerator | denominator | 0] of a segment, from g = dL/do [B, N, ..., M]: [B, T, ..., W].

        With o = n / d: dL/dn = g / d, and dL/dd = -(g·o) / d.
        """
        x = self.room(segment.of(g))
        dn = x[..., : self.M]
        torch.div(segment.of(g), segment.of(denominators), out=dn)
        x[..., self.M] = (dn * segment.of(out)).sum(-1).neg_()
        return x


def divide(segment: Segment, sums: Tensor, eps: float, out: Tensor, denominators: Tensor | None) -> None:
    """Write numerator / (denominator + eps) of a segment into `out`, and the divisor into `denominators` if given.

    sums [B, T, ..., W], out [B, N, ..., M], denominators [B, N, ..., 1].
    """
    M = out.shape[-1]
    divisor = sums[..., M : M + 1].add_(eps)
    torch.div(sums[..., :M], divisor, out=segment.of(out))
    if denominators is not None:
        segment.of(denominators).copy_(divisor)
