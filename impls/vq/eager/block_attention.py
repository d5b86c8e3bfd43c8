"""Attention by blocks and tables, some rows at a time, with its own backward.

B batch, K heads of k and v, X = B·K rows, R heads of q that share one of k and v, N tokens, D query/key width, M value width, S
codes. Kept for the backward are q, v, the codes, the output and the logsumexp; k̂, tables and scores are computed again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import is_fused, sums
from ..blocks import Blocks
from ..codebook import rows_of
from .seen import Asked, Positions, Seen
from .slopes import Slopes, slopes_of
from .tables import Table, running_tables

ROOM = 2**20
"""Number of elements of tables, or of queries, keys and values, of the rows taken together on a CPU; or one row."""

TOKENS = 2**13
"""Number of queries attended at once where a fused kernel keeps no scores."""

TILE = 2**22
"""Number of scores in memory at once where the kernel keeps them; or one block of one row."""


@dataclass(frozen=True)
class Call:
    """The work of a call, for `heads` heads of k and v."""

    blocks: Blocks
    heads: int
    reduction: str
    gradient_through_table: bool

    def groups(self, q: Tensor, v: Tensor, S: int) -> list[slice]:
        """Cut the rows into groups that are taken together."""
        N, M = v.shape[1:]
        a_row = max(self.blocks.tables * S * M, N * (q.shape[-1] + M))
        step = max(1, _enough(q, ROOM) // a_row)
        return [slice(a, min(len(q), a + step)) for a in range(0, len(q), step)]

    def at_once(self, seen: Seen, asked: Asked) -> int:
        """Count the blocks of each row that are attended together."""
        rows, S = seen.codebook.shape[:2]
        tokens = _enough(asked.q, TILE) // max(S, 2 * self.blocks.L)
        if is_fused(asked.q) and asked.positions is None:
            tokens = TOKENS
        return max(1, tokens // (rows * self.blocks.L))

    def heads_of(self, rows: slice, device: torch.device) -> Tensor:
        """Return the head of k and v of each row."""
        return torch.arange(rows.start, rows.stop, device=device) % self.heads


@dataclass(frozen=True)
class Tensors:
    """Inputs: q [X, R, N, D], k̂ [X, N, D] (None: by the codes), v [X, N, M], codes [X, N], codebook [K, S, D], and positions.

    Of positions q is [X, R, N, D], and r [K, R, L + 1, D].
    """

    q: Tensor
    k_hat: Tensor | None
    v: Tensor
    codes: Tensor
    codebook: Tensor
    positions: Positions | None

    def seen(self, call: Call, rows: slice) -> Seen:
        """Select some rows, and build their tables."""
        codebook = self.codebook[call.heads_of(rows, self.q.device)]
        codes, v = self.codes[rows], self.v[rows]
        k = rows_of(codebook, codes.unsqueeze(0)).squeeze(0) if self.k_hat is None else self.k_hat[rows]
        table, absorbed = None, slice(call.blocks.absorbed)
        if call.blocks.tables:
            table = _table(v[:, absorbed], codes[:, absorbed], codebook.shape[1], call)
        return Seen(call.blocks, k, v, codebook, table)

    def asked(self, call: Call, rows: slice) -> Iterator[Asked]:
        """Go through the heads of q of some rows."""
        at, heads = self.positions, call.heads_of(rows, self.q.device)
        for r in range(self.q.shape[1]):
            yield Asked(self.q[rows, r], None if at is None else Positions(at.q[rows, r], at.rows[heads, r]))


def _table(v: Tensor, codes: Tensor, S: int, call: Call) -> Table:
    """Compute the tables, with means in the dtype of values."""
    means, counts = running_tables(v, codes, S, call.blocks.tables, call.reduction)
    return means.to(v.dtype), counts


def block_attention(call: Call, tensors: Tensors) -> Tensor:
    """Attend: [X, R, N, D] … -> [X, R, N, M], differentiable once in q, k̂, v and the positions."""
    at, k_hat = tensors.positions, tensors.k_hat
    learnt = [tensors.q, tensors.v, *([] if k_hat is None else [k_hat]), *([] if at is None else [at.q, at.rows])]
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in learnt)):
        return _forward(call, tensors)[0]
    positions = (None, None) if at is None else (at.q, at.rows)
    given = (tensors.q, k_hat, tensors.v, tensors.codes, tensors.codebook, *positions)
    out: Tensor = _BlockAttention.apply(call, *given)  # type: ignore[no-untyped-call]
    return out


class _BlockAttention(torch.autograd.Function):
    """`block_attention` with its gradient; autograd would keep every part's output, and all tables."""

    @staticmethod
    def forward(ctx: Any, call: Call, *given: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Attend, and keep the logsumexp for the backward."""
        out, logsumexp = _forward(call, _tensors(*given))
        q, _, *others = given
        ctx.call = call
        ctx.save_for_backward(out, logsumexp, q, *others)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute the gradients, group after group of rows."""
        out, logsumexp, q, *others = ctx.saved_tensors
        return None, *_backward(ctx.call, _tensors(q, None, *others), (g, out, logsumexp))


def _tensors(*given: Tensor | None) -> Tensors:
    q, k_hat, v, codes, codebook, q_position, rows = given
    positions = None if q_position is None or rows is None else Positions(q_position, rows)
    return Tensors(q, k_hat, v, codes, codebook, positions)  # type: ignore[arg-type]


def _forward(call: Call, tensors: Tensors) -> tuple[Tensor, Tensor]:
    """Compute the output [X, R, N, M], and its logsumexp [X, R, N]."""
    q, v = tensors.q, tensors.v
    out = v.new_empty(*q.shape[:3], v.shape[2])
    logsumexp = v.new_empty(q.shape[:3], dtype=sums(v.dtype))
    for rows in call.groups(q, v, tensors.codebook.shape[1]):
        seen = tensors.seen(call, rows)
        for r, asked in enumerate(tensors.asked(call, rows)):
            for stretch in call.blocks.stretches(call.at_once(seen, asked)):
                for whole, part in zip((out, logsumexp), seen.attend(stretch, asked), strict=True):
                    stretch.own(whole[rows, r]).copy_(part)
        del seen  # free them before the next group
    return out, logsumexp


def _backward(call: Call, tensors: Tensors, outputs: tuple[Tensor, Tensor, Tensor]) -> Iterator[Tensor | None]:
    """Compute gradients of q, k̂, v and the positions (None for codes and codebook).

    `outputs` are dL/do, the output and its logsumexp.
    """
    q, v, at = tensors.q, tensors.v, tensors.positions
    dq, dk, dv = torch.empty_like(q), q.new_empty(*v.shape[:2], q.shape[-1]), torch.empty_like(v)
    dpositions = None if at is None else Positions(torch.empty_like(at.q), torch.zeros_like(at.rows, dtype=sums(q.dtype)))
    for rows in call.groups(q, v, tensors.codebook.shape[1]):
        seen = tensors.seen(call, rows)
        slopes = Slopes.of(seen, through_table=call.gradient_through_table)
        for r, asked in enumerate(tensors.asked(call, rows)):
            own = slopes_of(asked)
            for stretch in call.blocks.stretches(call.at_once(seen, asked)):
                g, *final = (stretch.own(x[rows, r]) for x in outputs)
                slopes.add(seen, stretch, (asked, own), g, (final[0], final[1]), first=r == 0)
            dq[rows, r].copy_(own.q)
            if dpositions is not None and own.positions is not None:
                dpositions.q[rows, r].copy_(own.positions.q)
                dpositions.rows[:, r].index_add_(0, call.heads_of(rows, q.device), own.positions.rows)
        slopes.through_tables(seen, tensors.codes[rows])
        for whole, part in zip((dk, dv), (slopes.k, slopes.v), strict=True):
            whole[rows].copy_(part)
        del seen, slopes  # free them before the next group
    yield from (dq, dk, dv, None, None)
    yield from (None, None) if dpositions is None or at is None else (dpositions.q, dpositions.rows.to(at.rows.dtype))


def _enough(x: Tensor, elements: int) -> int:
    """Scale a CPU's number to the device of x: a GPU takes 64 times as many."""
    return elements if x.device.type == "cpu" else 64 * elements
