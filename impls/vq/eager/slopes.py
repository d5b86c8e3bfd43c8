"""The backward of seen.py, to whose gradients every part adds its share; letters as there."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...partial.softmax import pull_back, sums
from ..blocks import Stretch
from ..window_bias import band, pull_back_biased
from .seen import Kind, Part, Positions, Seen, in_window
from .tables import gradient_of_values


@dataclass(frozen=True)
class Slopes:
    """Gradients of some rows, float32 at least: q, k [X, N, D], v [X, N, M], table means [X, T, S, M], positions."""

    q: Tensor
    k: Tensor
    v: Tensor
    means: Tensor | None
    positions: Positions | None

    @classmethod
    def of(cls, seen: Seen, *, through_table: bool) -> "Slopes":
        """Allocate the gradients; in a causal call every token's own block writes before others add."""
        make = torch.empty_like if seen.blocks.causal else torch.zeros_like
        dtype, means = sums(seen.q.dtype), None
        if seen.table is not None and through_table:
            means = torch.zeros_like(seen.table[0], dtype=dtype, memory_format=torch.contiguous_format)
        positions = None
        if seen.positions is not None:
            rows = torch.zeros_like(seen.positions.rows, dtype=dtype)
            positions = Positions(torch.empty_like(seen.positions.q, dtype=dtype), rows)
        q, k, v = (make(x, dtype=dtype) for x in (seen.q, seen.k, seen.v))
        return cls(q, k, v, means, positions)

    def add(self, seen: Seen, stretch: Stretch, g: Tensor, final: tuple[Tensor, Tensor]) -> None:
        """Add the share of one stretch: g = dL/do and the output [X, n, length, M], and its logsumexp [X, n, length]."""
        q, bias = stretch.own(seen.q), seen.bias(stretch)
        dbias = None if bias is None else torch.zeros_like(bias)
        for first, part in enumerate(seen.parts(stretch, bias)):
            s = slice(part.skip, None)
            gradients = _pull_back(part, g[:, s], q[:, s], (final[0][:, s], final[1][:, s]), stretch, dbias)
            own = stretch.own(self.q)[:, s]
            own.add_(gradients[0]) if first else own.copy_(gradients[0])
            self._collect(part, stretch, *gradients[1:])
            del gradients  # free them before the next part
        if dbias is not None:
            assert seen.positions is not None
            self._through_positions(stretch, seen.positions, dbias)

    def _collect(self, part: Part, stretch: Stretch, dk: Tensor, dv: Tensor) -> None:
        """Add gradients to the keys and values of a part; codes get none."""
        if part.kind is Kind.OWN:
            stretch.own(self.k).copy_(dk)
            stretch.own(self.v).copy_(dv)
        elif part.kind is Kind.BEFORE:
            stretch.before(self.k).add_(dk)
            stretch.before(self.v).add_(dv)
        elif self.means is not None:
            stretch.add_to_tables(self.means, dv)

    def _through_positions(self, stretch: Stretch, positions: Positions, dbias: Tensor) -> None:
        """Pass the gradient of scores in a window on to (q + v)·r."""
        assert self.positions is not None
        by_distance = band(dbias).to(positions.q.dtype)
        stretch.own(self.positions.q).copy_(by_distance @ positions.rows.unsqueeze(1))
        rows = by_distance.flatten(1, 2).mT @ stretch.own(positions.q).flatten(1, 2)
        self.positions.rows.add_(rows)

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
