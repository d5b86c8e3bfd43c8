"""The cuts of the Triton kernels: blocks by width and arithmetic, and the sequence into segments with a table each.

N tokens, S codes, L tokens of a block, D query/key width, M value width. `heads` is B·H.
"""

from dataclasses import dataclass

from ...partial.tiles import PROGRAMS, Arithmetic, padded

_SHORTEST = 128  # tokens; fewer are not worth another table
_MERGED = 2048  # numbers that a program which merges tables holds
_WALKED = 4096  # numbers that a program without products holds


@dataclass(frozen=True)
class Launch:
    """Launch of one kernel: tokens or codes of a program, those of a tile that it walks, warps, and stages of loads."""

    own: int
    other: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Blocks:
    """A launch for each kernel with products."""

    sums: Launch
    attend: Launch
    queries: Launch
    codes: Launch
    keys: Launch


@dataclass(frozen=True)
class Cut:
    """The sequence in segments of `tokens` tokens, all but the last whole; `tables` of them end with a table that is read."""

    tokens: int
    tables: int


# by the larger of D and M, rounded up to a power of two; chosen by what ptxas of Triton 3.9 reports for sm_80 and sm_90
_TABLE: dict[Arithmetic, dict[int, Blocks]] = {
    "half": {
        16: Blocks(*[Launch(64, 64, 4, 3)] * 5),
        32: Blocks(*[Launch(64, 64, 4, 3)] * 5),
        # sums, attend and queries: the fastest of thirteen on an H100
        64: Blocks(
            sums=Launch(64, 32, 4, 3),
            attend=Launch(128, 64, 4, 3),
            queries=Launch(64, 32, 4, 3),
            codes=Launch(64, 64, 4, 2),
            keys=Launch(64, 64, 4, 2),
        ),
        128: Blocks(
            sums=Launch(64, 64, 8, 2),
            attend=Launch(64, 64, 4, 2),
            queries=Launch(64, 64, 8, 2),
            codes=Launch(64, 64, 8, 2),
            keys=Launch(64, 32, 8, 2),
        ),
        256: Blocks(
            sums=Launch(32, 64, 8, 2),
            attend=Launch(64, 32, 8, 2),
            queries=Launch(32, 32, 8, 2),
            codes=Launch(32, 32, 8, 2),
            keys=Launch(32, 32, 8, 1),
        ),
    },
    "tf32": {
        16: Blocks(*[Launch(64, 64, 4, 2)] * 5),
        32: Blocks(*[Launch(64, 64, 4, 2)] * 5),
        64: Blocks(
            sums=Launch(64, 32, 4, 2),
            attend=Launch(64, 32, 4, 2),
            queries=Launch(64, 32, 8, 2),
            codes=Launch(64, 32, 8, 2),
            keys=Launch(64, 32, 8, 2),
        ),
        128: Blocks(
            sums=Launch(64, 32, 8, 2),
            attend=Launch(64, 32, 8, 2),
            queries=Launch(32, 32, 8, 2),
            codes=Launch(32, 32, 8, 2),
            keys=Launch(32, 32, 8, 2),
        ),
        256: Blocks(
            sums=Launch(32, 32, 8, 1),
            attend=Launch(32, 32, 8, 1),
            queries=Launch(32, 16, 8, 1),
            codes=Launch(32, 16, 8, 1),
            keys=Launch(32, 16, 8, 1),
        ),
    },
    "ieee": {
        16: Blocks(*[Launch(32, 32, 4, 2)] * 5),
        32: Blocks(*[Launch(32, 32, 4, 2)] * 5),
        64: Blocks(*[Launch(32, 32, 8, 2)] * 5),
        128: Blocks(*[Launch(32, 32, 8, 1)] * 5),
        256: Blocks(*[Launch(16, 16, 8, 1)] * 5),
    },
}

WIDEST = max(_TABLE["half"])
"""Largest D or M for which a tile fits into a multiprocessor."""


def blocks(D: int, M: int, kind: Arithmetic) -> Blocks:
    """Look up the launches for these widths."""
    return _TABLE[kind][max(padded(D), padded(M))]


def cut(N: int, L: int, *, causal: bool, walks: int) -> Cut:
    """Cut into blocks if causal, of which all but the last two end with a table; else into as few segments as fill a GPU.

    `walks` is how many programs sum up one segment.
    """
    if causal:
        return Cut(min(L, N), max(0, -(-N // L) - 2))
    wanted = -(-PROGRAMS // walks)
    tokens = max(-(-N // wanted), _SHORTEST)
    tokens = -(-tokens // _SHORTEST) * _SHORTEST
    return Cut(tokens, -(-N // tokens))


def fitted(launch: Launch, own: int, other: int) -> Launch:
    """Shorten tiles to the tokens or codes that exist."""
    return Launch(min(launch.own, padded(own)), min(launch.other, padded(other)), launch.warps, launch.stages)


def choosing(D: int, N: int, S: int, kind: Arithmetic) -> Launch:
    """Look up the launch that chooses codes, which has the tiles of attending."""
    return fitted(blocks(D, D, kind).attend, N, S)


def of_walk(D: int) -> int:
    """Choose how many tokens a program without products has."""
    return max(1, _WALKED // padded(D))


def merged(M: int) -> int:
    """Choose how many codes a program that merges tables has: a power of two, like the columns."""
    return max(1, _MERGED // padded(M))
