"""Cut bands into rectangles: no pair twice, few calls, and no query in a rectangle that shows it nothing.

N tokens, Q queries, S keys of a tile; a positions of queries, b of keys, within a group of a band.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ..patterns.band import Band, Span
from .rectangles import Grid, Rectangle, Stairs


@dataclass(frozen=True)
class Lengths:
    """Numbers of queries of a tile.

    `sliding`: (widest, length) pairs, for windows of up to that many keys, the last for all wider ones. `masked`: at most,
    where a mask has to be stored. `free`: at most, without a mask. On a CPU measured: best of 32 … 256 for windows of 17 … 513
    keys.
    """

    sliding: tuple[tuple[int, int], ...]
    masked: int
    free: int

    def of_window(self, width: int) -> int:
        """Return the length of tiles that slide along a window of this width."""
        return next((length for widest, length in self.sliding if width <= widest), self.sliding[-1][1])


FORWARD = Lengths(sliding=((320, 32), (0, 64)), masked=256, free=1 << 40)
"""Lengths for a CPU: torch's kernel takes 32 queries at a time, skips what `causal` hides, and keeps no scores."""
BACKWARD = Lengths(sliding=((96, 32), (192, 64), (384, 128), (0, 256)), masked=256, free=1 << 40)
"""Lengths for a CPU's backward, which sums up the gradients of keys where tiles overlap; longer tiles overlap less."""
PLAIN = Lengths(sliding=((64, 64), (0, 128)), masked=128, free=512)
"""Lengths elsewhere, where the scores of a tile are in memory and products should be large; not measured."""


@dataclass(frozen=True)
class _Groups:
    """Neighbouring groups of a band, all with these queries and keys."""

    first: int
    count: int
    queries: Span
    keys: Span


@dataclass(frozen=True)
class _Run:
    """Tiles of a group: queries a … a + Q - 1 with keys b … b + S - 1, and `count` - 1 copies of these, each Q further on."""

    a: int
    Q: int
    b: int
    S: int
    count: int = 1


def cover(band: Band, lengths: Lengths) -> Iterator[Rectangle]:
    """Cut all pairs of a band into rectangles."""
    for groups in _alike(band):
        for start, stop in _regions(band, groups):
            for run in _runs(band, groups, (start, stop), lengths):
                yield from _rectangles(band, groups, run)


def _alike(band: Band) -> Iterator[_Groups]:
    """Join neighbouring groups with the same positions, leaving out those that see nothing."""
    first, shape = 0, _seeing(band, 0)
    for g in range(1, band.groups + 1):
        following = _seeing(band, g) if g < band.groups else None
        if following != shape:
            if shape is not None and shape[0][0] < shape[0][1]:
                yield _Groups(first, g - first, *shape)
            first, shape = g, following


def _seeing(band: Band, g: int) -> tuple[Span, Span] | None:
    """Return the queries of a group that see a key, and its keys, or None without keys."""
    (start, stop), keys = band.query_positions(g), band.key_positions(g)
    if keys[0] >= keys[1]:
        return None
    if band.low is not None:
        start = max(start, (keys[0] // band.key_unit + band.low) * band.query_unit)
    if band.high is not None:
        stop = min(stop, ((keys[1] - 1) // band.key_unit + band.high + 1) * band.query_unit)
    return (start, max(start, stop)), keys


def _regions(band: Band, groups: _Groups) -> Iterator[Span]:
    """Cut queries into those whose window begins before the first key, lies within the keys, or ends after the last."""
    (start, stop), (first, last) = groups.queries, groups.keys
    cuts = {start, stop}
    if band.low is not None and band.high is not None:
        cuts |= {min(max(start, cut), stop) for cut in (first + band.high, last + band.low)}
    return pairwise(sorted(cuts))


def _runs(band: Band, groups: _Groups, region: Span, lengths: Lengths) -> Iterator[_Run]:
    """Cut one region into tiles."""
    (start, stop), g = region, groups.first
    length = _length(band, groups, region, lengths)
    count = (stop - start) // length if _slides(band, groups, region) else 0
    if count:
        yield _run(band, g, start, length, count)
    for a in range(start + count * length, stop, length):
        yield _run(band, g, a, min(length, stop - a))


def _run(band: Band, g: int, a: int, length: int, count: int = 1) -> _Run:
    b, stop = band.seen(a, g)[0], band.seen(a + length - 1, g)[1]
    return _Run(a, length, b, stop - b, count)


def _slides(band: Band, groups: _Groups, region: Span) -> bool:
    """Say whether all windows of a region have the same width and move by one with each query."""
    if band.low is None or band.high is None:
        return False
    first, last = groups.keys
    return region[0] >= first + band.high and region[1] <= last + band.low


def _length(band: Band, groups: _Groups, region: Span, lengths: Lengths) -> int:
    start, stop = region
    if _slides(band, groups, region):
        assert band.low is not None
        assert band.high is not None
        return lengths.of_window(band.high - band.low + 1)
    whole = _run(band, groups.first, start, stop - start)
    if _is_free(band, groups.first, whole) or _is_causal(band, groups.first, whole):
        return min(lengths.free, stop - start)
    # whole steps of the stairs, for few tiles, or for tiles without a mask
    return max(1, lengths.masked // 2 // band.query_unit) * band.query_unit if band.query_unit > 1 else lengths.masked


def _is_free(band: Band, g: int, run: _Run) -> bool:
    """Say whether each query of a tile sees all its keys."""
    return band.seen(run.a, g) == band.seen(run.a + run.Q - 1, g)


def _is_causal(band: Band, g: int, run: _Run) -> bool:
    """Say whether query a of a tile sees its keys b <= a."""
    first, stop = band.seen(run.a, g)
    steps = band.query_unit == band.key_unit == 1 and band.low is not None
    return steps and stop == first + 1 and run.S == run.Q and band.seen(run.a + run.Q - 1, g)[0] == first


def _rectangles(band: Band, groups: _Groups, run: _Run) -> Iterator[Rectangle]:
    """Batch tiles along groups or along a run, whichever is longer, as only one of them can be a dimension."""
    if run.count < groups.count or run.count == 1:
        for y in range(run.count):
            yield _rectangle(band, groups, run, (groups.first, groups.count, band.apart, y))
    else:
        for g in range(groups.first, groups.first + groups.count):
            yield _rectangle(band, groups, run, (g, run.count, run.Q * band.stride, 0))


def _rectangle(band: Band, groups: _Groups, run: _Run, tiles: tuple[int, int, int, int]) -> Rectangle:
    g, count, apart, y = tiles
    start, shift = g * band.apart, y * run.Q * band.stride
    queries = Grid(start + run.a * band.stride + shift, count, apart, run.Q, band.stride)
    if band.summary:
        keys = Grid(run.b, 1, 0, run.S)
    else:
        keys = Grid(start + run.b * band.stride + shift, count, apart, run.S, band.stride)
    causal = _is_causal(band, groups.first, run)
    stairs = None if causal or _is_free(band, groups.first, run) else _stairs(band, groups.first, run)
    return Rectangle(queries, keys, causal, stairs, band.summary)


def _stairs(band: Band, g: int, run: _Run) -> Stairs:
    """Describe a tile's mask by the limits that hide something in it, counted from its first key, or from its end."""
    stop = run.b + run.S
    low = band.low if band.seen(run.a, g)[1] < stop else None
    high = band.high if band.seen(run.a + run.Q - 1, g)[0] > run.b else None
    at_end = high is None and stop % band.key_unit == 0
    # the first key, or the one after the last, begins a step of the stairs
    query = run.a - (stop if at_end else run.b) // band.key_unit * band.query_unit
    return Stairs(run.Q, run.S, query, low, high, band.query_unit, band.key_unit, at_end)
