"""The bands that the Triton kernels walk through together, from the queries' side and from the keys'.

A launch has one set of places, tokens put in groups, and cuts them into blocks. Bands share a launch where a block of the same
places sees few keys of each: then the rows are loaded once, and one softmax runs through all bands. The rest goes into later
launches, which add to what the first one wrote. N tokens, H heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..patterns.band import Band, Part, Span, Summary

GROUPED, BY_TOKEN, SUMMARY = range(3)


@dataclass(frozen=True)
class Places:
    """Position a of group g is token g * apart + a * stride; of a summary, (a // cell) * step + a % cell + a head's start."""

    groups: int
    length: int
    apart: int = 0
    stride: int = 1
    cell: int = 1
    step: int = 1
    summary: bool = False

    @property
    def is_plain(self) -> bool:
        """Say whether a position is a token."""
        return self.groups == 1 and self.stride == 1 and not self.summary


@dataclass(frozen=True)
class Row:
    """The part of one head in a launch; `start` is where its cells begin in a summary."""

    head: int
    start: int
    bands: tuple[Band, ...]


@dataclass(frozen=True)
class Walk:
    """One launch: the positions first … stop of all groups, for these heads; `more` where an earlier one wrote there."""

    places: Places
    first: int
    stop: int
    rows: tuple[Row, ...]
    more: bool

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """List all different bands."""
        return tuple(dict.fromkeys(band for row in self.rows for band in row.bands))

    @cached_property
    def has_units(self) -> bool:
        """Say whether any positions are counted in units or cells."""
        return any(band.summary or (band.query_unit, band.key_unit) != (1, 1) for band in self.bands)


def query_walks(parts: tuple[Part, ...], N: int) -> tuple[Walk, ...]:
    """Plan launches whose blocks are queries; the first ones together write every token of every head."""
    return tuple(_walks([(part, _together(part, N, of_keys=False)) for part in parts], of_keys=False))


def key_walks(parts: tuple[Part, ...], N: int, group: int) -> tuple[Walk, ...]:
    """Plan launches whose blocks are keys; if two first ones share a head of k and v, all of them add to zeros."""
    walks = tuple(_walks([(part, _together(part, N, of_keys=True)) for part in parts], of_keys=True))
    first = [{row.head // group for row in walk.rows} for walk in walks if not walk.more]
    alone = sum(map(len, first)) == len(set().union(*first))
    return walks if alone else tuple(replace(walk, more=True) for walk in walks)


def words(band: Band, summary: Summary | None) -> list[int]:
    """Encode a band as the kernels read it."""
    # beyond any difference of rows
    far = max(band.length // band.query_unit, (band.keys[1] if band.summary else band.length) // band.key_unit) + 2
    low, high = -far if band.low is None else band.low, far if band.high is None else band.high
    kind = SUMMARY if band.summary else BY_TOKEN if band.groups == 1 else GROUPED
    cell, step = (summary.cells, summary.block) if band.summary and summary else (1, band.stride)
    units = (band.query_unit, band.key_unit, cell, step, kind)
    return [band.apart, band.stride, band.length, *band.queries, *band.keys, *cells_of(band), low, high, *units]


def cells_of(band: Band) -> Span:
    """Return the positions of a group that may be keys, all where none are named."""
    return band.cells or (0, band.length)


def own_places(band: Band, summary: Summary | None, *, of_keys: bool) -> Places:
    """Return the places of a band's own positions."""
    if of_keys and band.summary:
        assert summary is not None
        return Places(1, band.keys[1], cell=summary.cells, step=summary.block, summary=True)
    # with one group, the distance between groups does not matter
    return Places(band.groups, band.length, band.apart if band.groups > 1 else 0, band.stride)


def _together(part: Part, N: int, *, of_keys: bool) -> list[tuple[Places, list[Band]]]:
    """Group the bands of a part into launches, in order."""
    found: list[tuple[Places, list[Band]]] = []
    for band in part.bands:
        own, alone = own_places(band, part.summary, of_keys=of_keys), _is_shared_out(band, N, of_keys=of_keys)
        fits = (bands for places, bands in found if not alone and (places == own or _fits(band, places, of_keys=of_keys)))
        bands = next(fits, None)
        if bands is None:
            found.append((own, [band]))
        else:
            bands.append(band)
    return found


def _is_shared_out(band: Band, N: int, *, of_keys: bool) -> bool:
    """Say whether few tokens see all others, or are seen by all, so that programs of their own can share the work."""
    first, stop = band.keys if of_keys else band.queries
    return band.groups == 1 and band.low is band.high is None and 2 * (stop - first) < N


def _fits(band: Band, places: Places, *, of_keys: bool) -> bool:
    """Say whether a band whose positions are tokens can also be walked through in other places.

    A block of residues is spread over many tokens, so that pays off only for what all of these see alike.
    """
    if band.groups > 1 or places.summary or (of_keys and band.summary):
        return False
    return places.stride == 1 or band.low is band.high is None


def _walks(launches: list[tuple[Part, list[tuple[Places, list[Band]]]]], *, of_keys: bool) -> Iterator[Walk]:
    """Join the launches of all parts that have the same places."""
    for rank in range(max(len(found) for _, found in launches)):
        rows: dict[Places, list[Row]] = {}
        for part, found in launches:
            if rank < len(found):
                places, bands = found[rank]
                rows.setdefault(places, []).extend(_rows(part, tuple(bands)))
        for places, some in rows.items():
            bands = [band for row in some for band in row.bands]
            first, stop = (0, places.length) if not rank else _hull(places, bands, of_keys=of_keys)
            yield Walk(places, first, stop, tuple(sorted(some, key=lambda row: row.head)), more=rank > 0)


def _rows(part: Part, bands: tuple[Band, ...]) -> list[Row]:
    starts = part.summary.starts if part.summary else (0,) * len(part.heads)
    return [Row(head, start, bands) for head, start in zip(part.heads, starts, strict=True)]


def _hull(places: Places, bands: list[Band], *, of_keys: bool) -> Span:
    """Find the range of positions that any band needs."""
    if not places.is_plain:
        return 0, places.length
    spans = [band.keys if of_keys else band.queries for band in bands]
    return min(first for first, _ in spans), max(stop for _, stop in spans)
