"""The work of a call as data: every part of a pattern cut into rectangles, in the order in which they are attended.

N tokens, R rows (samples and heads) that are walked together, Q queries, S keys of a tile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from ..patterns.band import Part, Summary
from ..patterns.pattern import Pattern, Shape
from .cover import BACKWARD, FORWARD, PLAIN, Lengths, cover
from .rectangles import Rectangle, Stairs

ROWS = 8
"""Least number of rows walked together with the fused kernel, whose backward has one thread for each row and tile."""
QUERIES = 2**13
"""Number of queries of one fused call: its results, and the merge, stay in cache."""
SCORES = 2**25
"""Number of scores of one call where they are in memory: 128 MB in float32."""


@dataclass(frozen=True)
class Walk:
    """The walk through the rows of some heads: `rows` at once, rectangle after rectangle.

    `whole`: the fresh rectangles contain every query, so nothing has to be initialised.
    """

    heads: tuple[int, ...]
    rectangles: tuple[Rectangle, ...]
    summary: Summary | None
    rows: int
    whole: bool


@dataclass(frozen=True)
class Plan:
    """The walks of a call; each head is in one walk forward, and in one backward."""

    forward: tuple[Walk, ...]
    backward: tuple[Walk, ...]


# as many documents in a row may have lengths of their own
@lru_cache(maxsize=4096)
def plan(pattern: Pattern, shape: Shape, fused: bool) -> Plan:
    """Plan one walk for each part; `fused`: for the kernel of CPUs, otherwise with scores in memory."""
    parts = pattern.parts(shape)
    forward, backward = (FORWARD, BACKWARD) if fused else (PLAIN, PLAIN)
    return Plan(*(tuple(_walk(part, shape.N, lengths) for part in parts) for lengths in (forward, backward)))


def _walk(part: Part, N: int, lengths: Lengths) -> Walk:
    found, fused = _sharing([r for band in part.bands for r in cover(band, lengths)]), lengths is not PLAIN
    rows = max(ROWS, QUERIES // N) if fused else max(1, SCORES // max((_scores(r) for r in found), default=1))
    in_turn, whole = _marked([tile for r in found for tile in _bounded(r, rows, fused)], N)
    return Walk(part.heads, in_turn, part.summary, rows, whole)


def _sharing(rectangles: list[Rectangle]) -> list[Rectangle]:
    """Give rectangles whose masks differ in width alone the widest of these masks."""
    widest: dict[Stairs, Stairs] = {}
    for stairs in (r.stairs for r in rectangles if r.stairs):
        key = replace(stairs, keys=0)
        widest[key] = max(stairs, widest.get(key, stairs), key=lambda s: s.keys)
    return [replace(r, stairs=widest[replace(r.stairs, keys=0)]) if r.stairs else r for r in rectangles]


def _bounded(r: Rectangle, rows: int, fused: bool) -> Iterator[Rectangle]:
    """Split a rectangle so that a call has no more tiles than it may."""
    step = max(1, QUERIES // (rows * r.queries.length) if fused else SCORES // (rows * _scores(r)))
    for y in range(0, r.queries.count, step):
        yield r.tiles(y, min(y + step, r.queries.count))


def _scores(r: Rectangle) -> int:
    return r.queries.length * r.keys.length


def _marked(rectangles: Iterable[Rectangle], N: int) -> tuple[tuple[Rectangle, ...], bool]:
    """Mark the rectangles that are first to contain their queries, and say whether those contain all queries."""
    fresh, once, marked = torch.ones(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool), []
    for r in rectangles:
        tokens = r.queries.tokens()
        marked.append(replace(r, fresh=bool(fresh[tokens].all())))
        fresh[tokens] = False
        once[tokens] |= marked[-1].fresh
    return tuple(marked), bool(once.all())
