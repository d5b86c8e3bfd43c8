"""Lay out what must be kept of earlier tokens, from the bands of a pattern, so that later queries see all that they may.

Each band has its own cache, whose slots lie in the order in which the band's queries see them: reading the keys of a residue
from one dense range is up to three times as fast as picking them from the sequence. B batch, H heads, K heads of k and v.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from ..patterns.band import Band, Part, Summary
from ..patterns.pattern import Pattern, Shape
from .cache import Cache, Heads, Slots, Writer


@dataclass(frozen=True)
class Read:
    """The queries of one band, and the number and slots of the cache that has their keys."""

    band: Band
    cache: int
    slots: Slots

    def seen(self, token: int) -> slice | None:
        """Return the slots of all keys that a query sees, or None if it sees none."""
        place = self.band.position(token)
        if place is None:
            return None
        first, stop = self.band.seen(*place)
        if first == stop:
            return None
        # cells of a summary are adjacent
        return slice(first, stop) if self.band.summary else self.slots.within(place[1], first, stop)


@dataclass(frozen=True)
class Share:
    """Heads that see the same."""

    heads: slice
    count: int
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Caches:
    """All caches of a state, and the heads that read them."""

    layouts: tuple[Cache, ...]
    shares: tuple[Share, ...]

    @property
    def is_one(self) -> bool:
        """Say whether all heads read alike from one cache of the last tokens, of which none is left out."""
        if len(self.shares) > 1 or len(self.shares[0].reads) != 1 or len(self.layouts[0].writers) > 1:
            return False
        (read,) = self.shares[0].reads
        return not read.band.summary and read.band.cells is None


@lru_cache(maxsize=64)
def caches_for(pattern: Pattern, shape: Shape, kv_heads: int) -> Caches:
    """Lay out the caches for `shape.N` tokens, decoded one by one; `shape` must be causal."""
    caches: list[Cache] = []
    shares = [_share(part, shape.H // kv_heads, caches) for part in pattern.parts(shape)]
    return Caches(tuple(caches), tuple(shares))


def as_heads(heads: list[int]) -> Heads:
    """Turn heads into a slice, which gives a view, where they are equally spaced; else return them as they are."""
    step = heads[1] - heads[0] if len(heads) > 1 else 1
    even = step > 0 and heads == list(range(heads[0], heads[-1] + 1, step))
    return slice(heads[0], heads[-1] + 1, step) if even else heads


def _share(part: Part, group: int, caches: list[Cache]) -> Share:
    """Lay out what a part reads, appending the caches that do not exist yet."""
    owners = tuple(head // group for head in part.heads)
    reads = [_read(band, part.summary, owners, caches) for band in part.bands]
    return Share(_rows(list(part.heads)), len(part.heads), tuple(read for read in reads if read))


def _read(band: Band, summary: Summary | None, owners: tuple[int, ...], caches: list[Cache]) -> Read | None:
    """Lay out what a band reads; None where no query of the band sees a key."""
    if band.summary:
        assert summary is not None
        slots = [_cells(summary, start) for start in summary.starts]
    else:
        slots = [_needed(band)] * len(owners)
    if not slots[0].count:
        return None
    cache = _cache(slots, owners)
    if cache not in caches:
        caches.append(cache)
    return Read(band, caches.index(cache), slots[0])


def _cells(summary: Summary, start: int) -> Slots:
    blocks = summary.count // summary.cells
    return Slots(start, start + summary.cells, summary.cells, block=summary.block, rings=blocks)


def _needed(band: Band) -> Slots:
    """Give each group a ring of as many keys as a query reaches back to; of blocks, which end, keep only the current one."""
    blocks = band.groups > 1 and band.stride == 1
    first = min(band.key_positions(g)[0] for g in range(band.groups))
    stop = max(_stop(band, g) for g in range(band.groups))
    size = max(0, stop - first)
    if band.high is not None:
        size = min(size, band.high + 1)
    rings = 1 if blocks else band.groups
    return Slots(first, stop, size, stride=band.stride, block=band.apart * blocks, rings=rings, reused=blocks)


def _stop(band: Band, g: int) -> int:
    """Return the position before which all keys are that the last query of a group sees."""
    first, stop = band.query_positions(g)
    return band.seen(stop - 1, g)[1] if stop > first else 0


def _cache(slots: list[Slots], owners: tuple[int, ...]) -> Cache:
    """Lay out one row per head of k and v if all are read equally often and by the same slots, else one per head of q."""
    rows = list(zip(owners, slots, strict=True))
    once = list(dict.fromkeys(rows))
    if len(set(Counter(owners).values())) == 1 and len(once) == len(set(owners)):
        rows = once
    alike: dict[Slots, list[int]] = {}
    for row, (_, where) in enumerate(rows):
        alike.setdefault(where, []).append(row)
    writers = tuple(Writer(as_heads([rows[r][0] for r in chosen]), _rows(chosen), where) for where, chosen in alike.items())
    return Cache(len(rows), slots[0].count, writers)


def _rows(heads: list[int]) -> slice:
    found = as_heads(heads)
    assert isinstance(found, slice), "heads that see the same are equally far apart"
    return found
