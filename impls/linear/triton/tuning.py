"""The cuts of the Triton kernels: blocks by width and arithmetic, segments by how many programs fill a GPU.

N tokens, D query/key width, M value width, L tokens of a chunk, T tokens of a segment. `heads` is B·H.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from ...partial.tiles import PROGRAMS, padded

Arithmetic = Literal["bf16", "tf32", "ieee"]
"""Operands of the products: bfloat16; float32 rounded to tf32; float32 as it is."""

_SHORTEST = 128  # tokens; a segment must outweigh the state that is stored for it
_LONGEST_CHUNK = 64


@dataclass(frozen=True)
class Launch:
    """Launch of one kernel: tokens of a chunk, columns of the result in a program, warps, and stages of its pipeline."""

    chunk: int
    columns: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Blocks:
    """A launch for each of the kernels that walk along a segment."""

    sums: Launch
    attend: Launch
    queries: Launch
    keys: Launch
    values: Launch


@dataclass(frozen=True)
class Cut:
    """The sequence in segments of `tokens` tokens, all but the last in whole chunks."""

    segments: int
    tokens: int


# By the larger of D and M, rounded up to a power of two: the fastest of some that were timed on an H100, or within 5 % of it,
# but for 16. For "tf32" at 128 `attend` would be a quarter faster by 64 rows, which spill 8 kB a thread on sm_80. Four warps
# with half the columns are faster than eight that compute each feature once. triton/measure.py times others on a GPU.
_TABLE: dict[Arithmetic, dict[int, Blocks]] = {
    "bf16": {
        16: Blocks(*[Launch(64, 16, 4, 3)] * 5),
        32: Blocks(*[Launch(64, 32, 4, 3)] * 5),
        64: Blocks(*[Launch(64, 64, 4, 3)] * 5),
        128: Blocks(Launch(64, 64, 4, 3), *[Launch(64, 64, 4, 2)] * 4),
    },
    "tf32": {
        16: Blocks(*[Launch(64, 16, 4, 3)] * 5),
        32: Blocks(
            sums=Launch(64, 32, 4, 3),
            attend=Launch(64, 32, 4, 2),
            queries=Launch(64, 32, 4, 2),
            keys=Launch(64, 32, 4, 2),
            values=Launch(64, 32, 4, 3),
        ),
        64: Blocks(Launch(64, 32, 4, 2), *[Launch(64, 64, 4, 2)] * 4),
        128: Blocks(
            sums=Launch(64, 32, 4, 2),
            attend=Launch(32, 64, 4, 1),
            queries=Launch(32, 64, 4, 1),
            keys=Launch(32, 64, 4, 2),
            values=Launch(32, 64, 4, 2),
        ),
    },
    "ieee": {
        16: Blocks(*[Launch(32, 16, 4, 2)] * 5),
        32: Blocks(*[Launch(32, 32, 4, 2)] * 5),
        64: Blocks(
            sums=Launch(32, 32, 4, 2),
            attend=Launch(16, 64, 4, 2),
            queries=Launch(32, 32, 8, 2),
            keys=Launch(32, 32, 4, 2),
            values=Launch(16, 64, 4, 2),
        ),
        128: Blocks(Launch(16, 64, 4, 1), *[Launch(16, 32, 4, 1)] * 4),
    },
}

WIDEST = max(_TABLE["bf16"])
"""Largest D or M for which the tiles of a chunk fit beside the state."""


def arithmetic(dtype: torch.dtype) -> Arithmetic:
    """Choose the products for a dtype; float32 follows torch's float32 matmul precision.

    float16 goes through tf32, which rounds as float16 does but has the range of float32: sums over a few thousand tokens exceed
    65504, and shares of them fall below 6e-8.
    """
    if dtype is torch.float32:
        return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return "bf16" if dtype is torch.bfloat16 else "tf32"


def blocks(D: int, M: int, kind: Arithmetic) -> Blocks:
    """Look up the launches for these widths."""
    return _TABLE[kind][max(padded(D), padded(M))]


def splits(width: int, launch: Launch) -> int:
    """Count the programs that share the columns of a result."""
    return -(-width // launch.columns)


def cut(walks: int, N: int) -> Cut:
    """Cut into segments: as many as fit on the GPU at once, so that no second wave is begun, none below 128 tokens."""
    wanted = max(1, PROGRAMS // walks)
    tokens = max(-(-N // wanted), _SHORTEST if wanted > 1 else 1)
    tokens = -(-tokens // _LONGEST_CHUNK) * _LONGEST_CHUNK
    return Cut(segments=-(-N // tokens), tokens=tokens)
