"""Walking along the sequence in segments whose intermediate tensors stay in cache.

B batch and heads folded, N tokens, T = S L tokens of one segment in S chunks of L tokens, M value width,
W = M + 1 rounded up to 8: values, a column of ones for the denominator, zeros.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .feature_map import elu_plus_one

ROWS = 4096
"""B·T of one segment on a CPU: a few MB in float32, measured best of 512 … 16384 and of the whole sequence."""
_ROWS_ELSEWHERE = 2**18  # a GPU has no such cache to stay in and wants large products


@dataclass(frozen=True)
class Segment:
    """Tokens start … stop, in chunks of `chunk` tokens."""

    start: int
    stop: int
    chunk: int

    def of(self, x: Tensor) -> Tensor:
        """The segment of [B, N, ·], a view."""
        return x[:, self.start : self.stop]

    def features(self, x: Tensor) -> Tensor:
        """φ(x) of the segment, in chunks: [B, N, D] -> [BS, L, D], in the dtype of the arithmetic."""
        return elu_plus_one(self.of(x).to(arithmetic(x.dtype))).reshape(-1, self.chunk, x.shape[-1])

    def write_product(self, a: Tensor, b: Tensor, out: Tensor) -> None:
        """Product a · b, elementwise [BS, L, ·], into this segment of `out` [B, N, ·]."""
        part = self.of(out)
        torch.mul(a.view(part.shape), b.view(part.shape), out=part)


def segments(N: int, B: int, chunk: int, device: torch.device) -> list[Segment]:
    """Cover N tokens: segments of whole chunks, and at last one shorter chunk where `chunk` does not divide N. No padding."""
    step = max(1, _rows(device) // (B * chunk)) * chunk
    whole = N - N % chunk
    cut = [Segment(start, min(start + step, whole), chunk) for start in range(0, whole, step)]
    return cut if whole == N else [*cut, Segment(whole, N, N - whole)]


def whole_segments(N: int, B: int, device: torch.device) -> list[Segment]:
    """Cover N tokens by segments that are one chunk each, for the form that needs no mask."""
    step = max(1, _rows(device) // B)
    return [Segment(start, min(start + step, N), min(step, N - start)) for start in range(0, N, step)]


def _rows(device: torch.device) -> int:
    return ROWS if device.type == "cpu" else _ROWS_ELSEWHERE


def arithmetic(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: float16 ends at 65504, and a denominator passes that at a thousand tokens."""
    return torch.float32 if dtype is torch.float16 else dtype


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums along the whole sequence: at least float32."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def width(M: int) -> int:
    """W: room for the column of ones, rounded up to 8 so that rows stay aligned for tensor cores; neutral on a CPU."""
    return -(-(M + 1) // 8) * 8


def with_ones(segment: Segment, v: Tensor) -> Tensor:
    """[v | 1 | 0] of a segment: [B, N, M] -> [BS, L, W]; sums over it carry the denominator along."""
    M, part = v.shape[-1], segment.of(v)
    x = part.new_zeros(*part.shape[:-1], width(M), dtype=arithmetic(v.dtype))
    x[..., :M] = part
    x[..., M] = 1
    return x.view(-1, segment.chunk, x.shape[-1])


def divide(segment: Segment, sums: Tensor, eps: float, out: Tensor, denominators: Tensor | None) -> None:
    """Write numerator / (denominator + eps) of a segment into `out`, and keep what was divided by where asked.

    sums [BS, L, W], out [B, N, M], denominators [B, N, 1].
    """
    M, part = out.shape[-1], segment.of(out)
    sums = sums.view(*part.shape[:-1], -1)
    divisor = sums[..., M : M + 1].add_(eps)
    torch.div(sums[..., :M], divisor, out=part)
    if denominators is not None:
        segment.of(denominators).copy_(divisor)


def through_division(segment: Segment, g: Tensor, out: Tensor, denominators: Tensor) -> Tensor:
    """dL/d[numerator | denominator | 0] of a segment, from g = dL/do: [BS, L, W].

    With o = n / d: dL/dn = g / d, and dL/dd = -(g·o) / d.
    """
    M, part, divisor = out.shape[-1], segment.of(g), segment.of(denominators)
    x = part.new_zeros(*part.shape[:-1], width(M), dtype=divisor.dtype)
    torch.div(part, divisor, out=x[..., :M])
    x[..., M] = (x[..., :M] * segment.of(out)).sum(-1).neg_()
    return x.view(-1, segment.chunk, x.shape[-1])
