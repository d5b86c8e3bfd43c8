"""The cuts of the Triton kernels: blocks by width and arithmetic, no longer than a group, and long rows among programs.

D query/key width, M value width.
"""

from dataclasses import dataclass

from ...partial.tiles import PROGRAMS, Arithmetic, padded
from ..patterns.band import Band
from .walks import Walk, cells_of

_SHARE = 512  # positions; fewer are not worth another program and its scratch


@dataclass(frozen=True)
class Launch:
    """Launch of one kernel: queries and keys of a tile, warps, and stages of its pipeline of loads."""

    queries: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Blocks:
    """A launch for each kernel."""

    attend: Launch
    queries: Launch
    keys: Launch


# by the larger of D and M, rounded up to a power of two; chosen by what ptxas of Triton 3.9 reports for sm_80 and sm_90
_TABLE: dict[Arithmetic, dict[int, Blocks]] = {
    "half": {
        16: Blocks(*[Launch(64, 64, 4, 3)] * 3),
        32: Blocks(*[Launch(64, 64, 4, 3)] * 3),
        64: Blocks(Launch(64, 64, 4, 3), Launch(64, 64, 4, 2), Launch(64, 64, 4, 2)),
        128: Blocks(Launch(64, 64, 4, 2), Launch(64, 64, 8, 2), Launch(32, 64, 8, 2)),
        256: Blocks(Launch(64, 32, 8, 2), Launch(32, 32, 8, 2), Launch(32, 32, 8, 1)),
    },
    "tf32": {
        16: Blocks(*[Launch(64, 64, 4, 2)] * 3),
        32: Blocks(*[Launch(64, 64, 4, 2)] * 3),
        64: Blocks(Launch(64, 32, 4, 2), Launch(64, 32, 8, 2), Launch(32, 64, 8, 2)),
        128: Blocks(Launch(64, 32, 8, 2), Launch(32, 32, 8, 2), Launch(32, 32, 8, 2)),
        256: Blocks(Launch(32, 32, 8, 1), Launch(32, 16, 8, 1), Launch(16, 32, 8, 1)),
    },
    "ieee": {
        16: Blocks(*[Launch(32, 32, 4, 2)] * 3),
        32: Blocks(*[Launch(32, 32, 4, 2)] * 3),
        64: Blocks(*[Launch(32, 32, 8, 2)] * 3),
        128: Blocks(*[Launch(32, 32, 8, 1)] * 3),
        256: Blocks(*[Launch(16, 16, 8, 1)] * 3),
    },
}

WIDEST = max(_TABLE["half"])
"""Largest D or M for which a tile fits into a multiprocessor."""


def blocks(D: int, M: int, kind: Arithmetic) -> Blocks:
    """Look up the launches for these widths."""
    return _TABLE[kind][max(padded(D), padded(M))]


def fitted(launch: Launch, walk: Walk, *, of_keys: bool) -> Launch:
    """Shorten blocks to what is walked, since residues and blocks of tokens may be short."""
    own = padded(walk.stop - walk.first)
    other = padded(max(_others(band, of_keys=of_keys) for band in walk.bands))
    queries, keys = (other, own) if of_keys else (own, other)
    return Launch(min(launch.queries, queries), min(launch.keys, keys), launch.warps, launch.stages)


def programs(walk: Walk, launch: Launch, *, of_keys: bool) -> int:
    """Count the programs for one head of one sequence."""
    return walk.places.groups * -(-(walk.stop - walk.first) // (launch.keys if of_keys else launch.queries))


def splits(walk: Walk, side_by_side: int, *, of_keys: bool) -> int:
    """Choose how many programs share each block, given how many run anyway: 1 unless few tokens meet all others."""
    if not (walk.more and walk.places.is_plain and walk.first == 0):
        return 1
    longest = max(_span(band, of_keys=of_keys) if band.low is band.high is None else 0 for band in walk.bands)
    return max(1, min(-(-PROGRAMS // side_by_side), longest // _SHARE))


def _span(band: Band, *, of_keys: bool) -> int:
    first, stop = band.queries if of_keys else band.keys
    return stop - first


def _others(band: Band, *, of_keys: bool) -> int:
    """Find the most positions of the other side that a band has in a group."""
    first, stop = (0, band.length) if of_keys else cells_of(band)
    return max(1, min(stop - first, _span(band, of_keys=of_keys)))
