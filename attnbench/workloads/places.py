"""Which rows of an output are looked at: a few tokens of a few heads and samples, spread so that no part is left out.

B samples, H heads, N tokens.
"""

import itertools
import random
from dataclasses import dataclass

ROWS = 64
"""Rows of an output that are compared, where it has as many."""
_PLACES, _SAMPLES = 8, 4


@dataclass(frozen=True)
class Place:
    """Some tokens of one head of one sample, by rising number."""

    b: int
    h: int
    at: tuple[int, ...]


def places(B: int, H: int, N: int, span: int, source: random.Random, rows: int = ROWS) -> list[Place]:
    """At least `rows` rows, or all there are: of the first and the last head and sample, and of others by chance.

    In each the first token and the last, tokens beside a border of `span` tokens, and others by chance.
    """
    by_chance = (divmod(number, H) for number in source.sample(range(B * H), min(B * H, _PLACES)))
    heads = list(dict.fromkeys([(0, 0), (B - 1, H - 1), *by_chance]))[:_PLACES]
    each = -(-rows // len(heads))
    # where there is time for a few only, nobody knows for which
    source.shuffle(heads)
    return [Place(b, h, tokens(N, span, each, source)) for b, h in heads]


def tokens(N: int, span: int, count: int, source: random.Random, first: int = 0) -> tuple[int, ...]:
    """So many tokens from `first` on, or all of them."""
    if N - first <= count:
        return tuple(range(first, N))
    chosen = {first, N - 1}
    borders = [border for border in range(span, N, span) if border > first]
    for turn in itertools.count():
        if len(chosen) >= count:
            break
        # borders and chance in turns: where there is no border, chance alone
        near = source.choice(borders) + source.choice((-1, 0, 1)) if borders and turn % 2 else source.randrange(first, N)
        chosen.add(min(N - 1, max(first, near)))
    return tuple(sorted(chosen))


def last_tokens(B: int, H: int, N: int, source: random.Random, rows: int = ROWS) -> list[Place]:
    """The last token alone, of so many heads, or of all: of a few samples, the first and the last among them."""
    samples = list(dict.fromkeys([0, B - 1, *source.sample(range(B), min(B, _SAMPLES))]))[:_SAMPLES]
    every = [Place(b, h, (N - 1,)) for b in samples for h in range(H)]
    return sorted(source.sample(every, min(len(every), rows)), key=lambda place: samples.index(place.b))
