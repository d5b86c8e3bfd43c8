"""The keys that the queries of some rows see: their own block, the one before, and a table.

X rows (batch and heads of k and v folded), N tokens, L tokens of a block, T tables, S codes, D query/key width, M value width,
n blocks. Several heads of q may share the keys of a row; one of them asks at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from ...partial.softmax import Rule, attend, merge_, sums
from ..blocks import Blocks, Stretch
from ..window_bias import over_window
from .tables import Table


class Kind(Enum):
    """The source of the keys of a part."""

    OWN = 0
    BEFORE = 1
    TABLE = 2


@dataclass(frozen=True)
class Part:
    """Keys [X, ·, keys, D] and values [X, ·, keys, M] that all but the first `skip` blocks of a stretch see."""

    kind: Kind
    skip: int
    k: Tensor
    v: Tensor
    rule: Rule


@dataclass(frozen=True)
class Positions:
    """Queries [X, N, D] for the scores with r, and r [X, L + 1, D], the farthest first."""

    q: Tensor
    rows: Tensor

    def bias(self, stretch: Stretch) -> Tensor:
        """Compute the bias [X, n, length, 2L], float32 at least."""
        by_distance = stretch.own(self.q) @ self.rows.unsqueeze(1).mT
        return over_window(by_distance.to(sums(self.q.dtype)))


@dataclass(frozen=True)
class Asked:
    """Queries [X, N, D], and optionally those by distance."""

    q: Tensor
    positions: Positions | None

    def bias(self, stretch: Stretch) -> Tensor | None:
        """Compute what is added to the scores in the windows of a stretch."""
        return None if self.positions is None else self.positions.bias(stretch)


@dataclass(frozen=True)
class Seen:
    """k [X, N, D], v [X, N, M], the codebook of each row [X, S, D], and optionally tables [X, T, S, ·]."""

    blocks: Blocks
    k: Tensor
    v: Tensor
    codebook: Tensor
    table: Table | None

    def attend(self, stretch: Stretch, asked: Asked) -> tuple[Tensor, Tensor]:
        """Compute the output [X, n, length, M] of a stretch and its logsumexp [X, n, length], both float32 at least."""
        q, (first, *others) = stretch.own(asked.q), self.parts(stretch, asked.bias(stretch))
        o, logsumexp = attend(q, first.k, first.v, first.rule)
        o = o.to(logsumexp.dtype)
        for part in others:
            merge_(o[:, part.skip :], logsumexp[:, part.skip :], attend(q[:, part.skip :], part.k, part.v, part.rule))
        return o, logsumexp

    def parts(self, stretch: Stretch, bias: Tensor | None) -> Iterator[Part]:
        """Go through the parts that a stretch sees, of which the first is seen by all blocks."""
        if self.blocks.causal:
            rule = Rule(1.0, causal=True) if bias is None else Rule(1.0, bias=in_window(bias, stretch, Kind.OWN))
            yield Part(Kind.OWN, 0, stretch.own(self.k), stretch.own(self.v), rule)
            if stretch.without(1) < stretch.count:
                rule = Rule(1.0, bias=None if bias is None else in_window(bias, stretch, Kind.BEFORE))
                yield Part(Kind.BEFORE, stretch.without(1), stretch.before(self.k), stretch.before(self.v), rule)
        if self.table is not None and stretch.without(2) < stretch.count:
            yield self._table(stretch, self.table)

    def _table(self, stretch: Stretch, table: Table) -> Part:
        """Build the part of the table; a code without tokens is hidden by log 0."""
        means, counts = (stretch.tables(x) for x in table)
        log_counts = counts.log().unsqueeze(2).expand(-1, -1, stretch.length, -1)
        k = self.codebook.unsqueeze(1).expand(-1, means.shape[1], -1, -1)
        return Part(Kind.TABLE, stretch.without(2), k, means, Rule(1.0, bias=log_counts))


def in_window(x: Tensor, stretch: Stretch, kind: Kind) -> Tensor:
    """Select the columns [X, ·, length, keys] of one part of the window [X, n, length, 2L], a view."""
    if kind is Kind.OWN:
        return x[..., stretch.L : stretch.L + stretch.length]
    return x[:, stretch.without(1) :, :, : stretch.L]
