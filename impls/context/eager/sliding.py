"""Attention of one head over a causal window, with a penalty for each distance.

R rows (samples), N tokens, w keys of a window, D query/key width, M value width.
"""

from torch import Tensor

from ...partial.softmax import Rule, attend, is_fused, pull_back, sums
from .sliding_tiles import lengths, table_of, tiles

Inputs = tuple[Tensor, Tensor, Tensor]


def slide(inputs: Inputs, penalty: Tensor, scale: float, into: tuple[Tensor, Tensor]) -> None:
    """Compute softmax(q_i·k_j scale + penalty[i - j]) v over i - j < w.

    [R, N, D], [R, N, D], [R, N, M], penalty [w]; writes the output [R, N, M] and the logsumexp [R, N] to `into`.
    """
    q, k, v = inputs
    work = tiles(q.shape[1], len(penalty), lengths(len(penalty), is_fused(q))[0], len(q))
    table = table_of(penalty, work)
    for tile in work:
        rule = Rule(scale, bias=tile.bias(table, len(penalty)))
        part = attend(tile.queries(q), tile.keys(k), tile.keys(v), rule)
        for x, result in zip(into, part, strict=True):
            tile.queries(x).copy_(result)
        # free them before the next tile
        del part, result


def empty_result(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Allocate what `slide` writes to, for q [..., D] and v [..., M]."""
    out = v.new_empty(*q.shape[:-1], v.shape[-1])
    return out, out.new_empty(out.shape[:-1], dtype=sums(q.dtype))


def slide_back(g: Tensor, inputs: Inputs, final: tuple[Tensor, Tensor], penalty: Tensor, scale: float, into: Inputs) -> None:
    """Write dL/dq, and add to dL/dk and dL/dv, from g = dL/do and what `slide` wrote."""
    q, k, v = inputs
    work = tiles(q.shape[1], len(penalty), lengths(len(penalty), is_fused(q))[1], len(q))
    table = table_of(penalty, work)
    for tile in work:
        rule = Rule(scale, bias=tile.bias(table, len(penalty)))
        seen, of_tile = (tile.queries(q), tile.keys(k), tile.keys(v)), (tile.queries(final[0]), tile.queries(final[1]))
        dq, dk, dv = pull_back(tile.queries(g), seen, of_tile, rule)
        tile.queries(into[0]).copy_(dq)
        tile.add_keys(into[1], dk)
        tile.add_keys(into[2], dv)
        # free them before the next tile
        del dq, dk, dv
