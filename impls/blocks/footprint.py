"""Bytes that the parts of attention over blocks hold at their peaks on a CPU.

Left out: packed copies of k and v that some CPUs make of float16 and bfloat16.

X samples and heads of k, R heads of q that share one, N tokens, L tokens of a block, C complete blocks, E blocks chosen by a
query, D query/key width, M value width.
"""

from dataclasses import dataclass

from attnbench.api import Problem

from ..partial.scratch import queries_at_once
from .choosing import Choice, tokens_together
from .lists import SORTED, together
from .own_block import blocks_together
from .room import HEADS, QUERIES, SCORES
from .tiles import Pattern, Tile

_INDEX = 8


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem as the formulas use them: counts of rows, and bytes of a number and of tensors."""

    p: Problem

    @property
    def X(self) -> int:  # noqa: N802 - the letter of the dimension
        """Count samples times heads of k."""
        return self.p.B * self.p.kv_heads

    @property
    def R(self) -> int:
        """Count the heads of q that share one head of k."""
        return self.p.H // self.p.kv_heads

    @property
    def rows(self) -> int:
        """Count the queries of all samples and heads."""
        return self.X * self.R * self.p.N

    @property
    def e(self) -> int:
        """Return the bytes of a number as stored."""
        return self.p.dtype.bytes

    @property
    def sum(self) -> int:
        """Return the bytes of a number in a sum."""
        return max(4, self.e)

    @property
    def rounds(self) -> bool:
        """Say whether sums are rounded to a narrower dtype at the end."""
        return self.sum > self.e

    @property
    def widest(self) -> int:
        """Return the width to which the fused kernel pads queries, keys and values."""
        return max(self.p.D, self.p.M)

    @property
    def output(self) -> int:
        """Count the bytes of o."""
        return self.rows * self.p.M * self.e

    @property
    def gradients(self) -> int:
        """Count the bytes of dq, dk and dv."""
        return (self.rows * self.p.D + self.X * self.p.N * (self.p.D + self.p.M)) * self.e

    def part(self, queries: int, keys: int, length: int) -> float:
        """Count the bytes of one call of the fused kernel: its output, inputs padded to one width, and one thread's scratch."""
        filled = 0 if self.p.D == self.p.M else (queries + keys if self.p.D < self.p.M else keys) * self.widest * self.e
        scratch = queries_at_once(length) * (min(512, keys) + 2 + self.widest) * self.sum
        return queries * (self.widest * self.e + self.sum) + filled + scratch

    def part_back(self, queries: int, keys: int, length: int, *, dense: bool = False) -> float:
        """Count the bytes of its backward: three gradients, padding, scratch, and if not `dense` a copy of dL/do."""
        p, widest = self.p, self.widest * self.e
        filled = 0 if p.D == p.M else (queries + keys if p.D < p.M else keys + 2 * queries) * widest
        square = queries_at_once(length) * min(512, keys)
        slopes = 2 * square * (self.sum + (self.e if self.rounds else 0))
        return (queries * (1 if dense else 2) + 2 * keys) * widest + filled + slopes


def choosing(s: Sizes, choice: Choice, *, by_weight: bool) -> float:
    """Count the bytes at the peak of choosing: means, the scores of a span of queries, and the best of them.

    `by_weight` holds the scores twice, before and after the softmax.
    """
    count, tokens = s.p.N // choice.block, s.p.N
    tokens = min(tokens, tokens_together(SCORES, s.X * s.R, count))
    scores = s.X * tokens * count * s.sum
    best = s.X * tokens * min(choice.count, count) * (s.sum + _INDEX + 4)
    if by_weight:
        # heads that share k are copied into one row
        asked = s.X * s.R * tokens * s.p.D * s.e if s.R > 1 else 0
        means = s.X * count * (s.p.D + s.p.M) * s.e
        return means + max(asked + s.R * scores, 2 * s.R * scores, (s.R + 1) * scores + best)
    widened = s.X * (tokens + count) * s.p.D * s.sum if s.rounds else 0
    return s.X * count * s.p.D * s.e + scores + max(widened, best)


def chosen_bytes(s: Sizes, choice: Choice) -> int:
    """Count the bytes of the choices as int32."""
    return s.X * s.p.N * choice.count * 4


def over_blocks(s: Sizes, choice: Choice, *, forced: bool) -> float:
    """Count the bytes at the peak of the forward: output, logsumexp, and the largest of own blocks, sorting and one stretch.

    `forced`: every query chooses the first block.
    """
    parts = [s.part(*_own(s, choice))]
    if longest := _stretch(s, choice, forced=forced):
        queries = longest[0]
        gathered = queries * s.p.D * s.e + s.part(*longest)
        merging = queries * (s.widest * s.e + s.sum + s.p.M * s.sum + 3 * s.sum + (s.p.M * s.sum if s.rounds else 0))
        parts += [_sorting(s, choice), _lists(s, choice) + queries * 2 * _INDEX + max(gathered, merging)]
    kept = s.rows * (s.p.M + 1) * s.sum
    return kept + max(*parts, s.output if s.rounds else 0)


def over_blocks_back(s: Sizes, choice: Choice, *, forced: bool) -> float:
    """Count the bytes that the backward adds: sums of gradients, and the largest of own blocks, sorting and one stretch."""
    parts = [s.part_back(*_own(s, choice), dense=choice.block >= s.p.N)]
    if longest := _stretch(s, choice, forced=forced):
        queries, keys, _ = longest
        gathered = queries * ((s.p.D + 2 * s.p.M) * s.e + s.sum)
        adding = (queries + 2 * keys) * s.widest * s.e + queries * s.p.D * s.sum
        held = _lists(s, choice) + queries * 2 * _INDEX
        parts += [_sorting(s, choice), held + max(gathered + s.part_back(*longest, dense=True), adding)]
    sums = s.gradients * s.sum / s.e
    return sums + max(*parts, s.gradients if s.rounds else 0)


def over_tiles(s: Sizes, pattern: Pattern) -> float:
    """Count the bytes at the peak of a tiled forward: output, logsumexp, and the largest tile with its mask."""
    return s.output + s.rows * s.sum + max((_mask(s, t) + s.part(*_tile(s, t)) for t in pattern.tiles(s.p.N)), default=0)


def over_tiles_back(s: Sizes, pattern: Pattern, keys: int) -> float:
    """Count the bytes that a tiled backward adds: dq, sums of dk and dv of `keys` keys, and the largest tile with its mask."""
    sums = s.rows * s.p.D * s.e + s.X * keys * (s.p.D + s.p.M) * s.sum
    return sums + max((_mask(s, t) + s.part_back(*_tile(s, t)) for t in pattern.tiles(s.p.N)), default=0)


def decoding_peak(s: Sizes, choice: Choice) -> float:
    """Count the bytes of one step: numbers of rows, three times, the keys and values read, and their scores."""
    own, rest = divmod(s.p.N - 1, choice.block)
    keys = min(choice.count, own) * choice.block + rest + 1
    gathered = s.X * keys * (3 * _INDEX + 1 + (s.p.D + s.p.M) * s.e)
    return gathered + s.X * s.R * (keys * (2 * s.sum + (s.e if s.rounds else 0)) + s.p.M * s.e)


def _own(s: Sizes, choice: Choice) -> tuple[int, int, int]:
    """Measure a run of own blocks for one of R heads: queries, keys, and the length of a block."""
    length = min(choice.block, s.p.N)
    queries = min(s.p.N // length, blocks_together(QUERIES, s.X, length)) * length * s.X
    return queries, queries, length


def _heads(s: Sizes) -> int:
    """Count the heads of k that are attended together."""
    return together(s.X, s.R, HEADS, QUERIES)[0]


def _stretch(s: Sizes, choice: Choice, *, forced: bool) -> tuple[int, int, int] | None:
    """Measure the longest stretch: queries, keys and queries per head, or None where nothing is chosen.

    Assumes that all blocks are equally likely, so that the first has the longest list.
    """
    blocks, heads = -(-s.p.N // choice.block), _heads(s)
    if choice.count == 0 or blocks == 1:
        return None
    share = sum(1.0 if forced else min(1.0, choice.count / own) for own in range(1, blocks))
    most = min(s.p.N - choice.block, round(choice.block * share))
    tokens = min(most, together(s.X, s.R, HEADS, QUERIES)[1])
    return heads * s.R * tokens, heads * choice.block, s.R * tokens


def _lists(s: Sizes, choice: Choice) -> int:
    return _heads(s) * s.p.N * choice.count * 4


def _sorting(s: Sizes, choice: Choice) -> float:
    """Count the bytes while lists are sorted: the lists, and keys, values and indices of what is sorted together.

    A radix sort holds these three times.
    """
    choices = s.p.N * choice.count
    sorted_together = min(_heads(s), max(1, SORTED // choices)) * choices
    return _lists(s, choice) + sorted_together * (4 + 3 * (4 + _INDEX))


def _tile(s: Sizes, tile: Tile) -> tuple[int, int, int]:
    queries = tile.stop - tile.start
    return s.X * s.R * queries, s.X * s.R * (tile.end - tile.first), queries


def _mask(s: Sizes, tile: Tile) -> int:
    return (tile.stop - tile.start) * (tile.end - tile.first) * s.sum
