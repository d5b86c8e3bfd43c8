"""The backward of seen.py, to whose gradients every part adds its share; letters as there."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...partial.softmax import pull_back, sums
from ..blocks import Stretch
from ..window_bias import band, pull_back_biased
from .seen import Asked, Kind, Part, Positions, Seen, in_window
from .tables import gradient_of_values


def slopes_of(asked: Asked) -> Asked:
    """Allocate the gradients of queries, float32 at least."""
    dtype, at = sums(asked.q.dtype), asked.positions
    positions = None
    if at is not None:
        positions = Positions(torch.empty_like(at.q, dtype=dtype), torch.zeros_like(at.rows, dtype=dtype))
    return Asked(torch.empty_like(asked.q, dtype=dtype), positions)


@dataclass(frozen=True)
class Slopes:
    """Gradients of what the queries of some rows see, float32 at least: k [X, N, D], v [X, N, M], table means [X, T, S, M]."""

    k: Tensor
    v: Tensor
    means: Tensor | None

    @classmethod
    def of(cls, seen: Seen, *, through_table: bool) -> "Slopes":
        """Allocate the gradients; in a causal call every token's own block writes before others add."""
        make = torch.empty_like if seen.blocks.causal else torch.zeros_like
        dtype, means = sums(seen.k.dtype), None
        if seen.table is not None and through_table:
            means = torch.zeros_like(seen.table[0], dtype=dtype, memory_format=torch.contiguous_format)
        return cls(make(seen.k, dtype=dtype), make(seen.v, dtype=dtype), means)

    def add(
        self,
        seen: Seen,
        stretch: Stretch,
        queries: tuple[Asked, Asked],
        g: Tensor,
        final: tuple[Tensor, Tensor],
        *,
        first: bool,
    ) -> None:
        """Add the share of one stretch: g = dL/do and the output [X, n, length, M], and its logsumexp [X, n, length].

        `queries` are those of one head and their gradients; the `first` head writes what others add to.
        """
        asked, slopes = queries
        q, bias = stretch.own(asked.q), asked.bias(stretch)
        dbias = None if bias is None else torch.zeros_like(bias)
        for number, part in enumerate(seen.parts(stretch, bias)):
            s = slice(part.skip, None)
            gradients = _pull_back(part, g[:, s], q[:, s], (final[0][:, s], final[1][:, s]), stretch, dbias)
            own = stretch.own(slopes.q)[:, s]
            own.add_(gradients[0]) if number else own.copy_(gradients[0])
            self._collect(part, stretch, *gradients[1:], first=first)
            del gradients  # free them before the next part
        if dbias is not None:
            assert asked.positions is not None
            assert slopes.positions is not None
            by_distance = band(dbias).to(asked.positions.q.dtype)
            stretch.own(slopes.positions.q).copy_(by_distance @ asked.positions.rows.unsqueeze(1))
            slopes.positions.rows.add_(by_distance.flatten(1, 2).mT @ stretch.own(asked.positions.q).flatten(1, 2))

    def _collect(self, part: Part, stretch: Stretch, dk: Tensor, dv: Tensor, *, first: bool) -> None:
        """Add gradients to the keys and values of a part; codes get none."""
        if part.kind is Kind.OWN:
            for own, share in ((stretch.own(self.k), dk), (stretch.own(self.v), dv)):
                own.copy_(share) if first else own.add_(share)
        elif part.kind is Kind.BEFORE:
            stretch.before(self.k).add_(dk)
            stretch.before(self.v).add_(dv)
        elif self.means is not None:
            stretch.add_to_tables(self.means, dv)

    def through_tables(self, seen: Seen, codes: Tensor) -> None:
        """Pass the gradients of tables on to the values that went into them; codes [X, N]."""
        if self.means is not None and seen.table is not None:
            absorbed = slice(seen.blocks.absorbed)
            self.v[:, absorbed].add_(gradient_of_values(self.means, seen.table[1], codes[:, absorbed]))


def _pull_back(
    part: Part, g: Tensor, q: Tensor, final: tuple[Tensor, Tensor], stretch: Stretch, dbias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dL/dq, dL/dk and dL/dv of a part, and write its share of the bias's gradient."""
    if dbias is None or part.kind is Kind.TABLE:
        return pull_back(g, (q, part.k, part.v), final, part.rule)
    assert part.rule.bias is not None
    *gradients, ds = pull_back_biased(g, (q, part.k, part.v), final, part.rule.bias)
    in_window(dbias, stretch, part.kind).copy_(ds)
    return gradients[0], gradients[1], gradients[2]
