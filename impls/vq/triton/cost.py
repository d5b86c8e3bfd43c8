"""The cost of one call of vq.triton: products of whole tiles, counted as the kernels walk.

B batch, H heads of q, K of k and v, N tokens, S codes, D query/key width, M value width.
"""

import torch

from attnbench.api import Cost, Problem, Workload

from ...partial.tiles import arithmetic, padded
from ..options import VQOptions
from ..work import cost_by_blocks
from .plan import Plan, Shape
from .tuning import Launch, choosing


def cost_by_tiles(p: Problem, o: VQOptions, workload: Workload) -> Cost:
    """Count FLOPs and bytes on a GPU; decoding costs the same as in the rest of the family."""
    cost, trains = cost_by_blocks(p, o, workload), workload is Workload.FORWARD_BACKWARD
    if workload.decodes:
        return cost
    plan = Plan.of(Shape(p.B, p.H, p.kv_heads, p.N, p.D, p.M, o.codes, o.block, p.causal), arithmetic(getattr(torch, p.dtype)))
    assigned = assigned_flops(p, o.codes)
    attended = attended_flops(plan, trains=trains, through_table=o.gradient_through_table)
    return cost.model_copy(update={"executed_flops": assigned + attended})


def assigned_flops(p: Problem, S: int) -> float:
    """Count the products that choose codes; of half precision three, for a code in float32 is the sum of three."""
    kind = arithmetic(getattr(torch, p.dtype))
    how = choosing(p.D, p.N, S, kind)
    products = 3 if kind == "half" else 1
    return 2.0 * p.B * p.kv_heads * products * _whole(p.N, how.own) * _whole(S, how.other) * padded(p.D)


def attended_flops(p: Plan, *, trains: bool, through_table: bool = True) -> float:
    """Count products of whole tiles with the padding of widths.

    There is one per tile for the tables and two for the output. The backward has the tables again, three for dq, two for
    gradients through the table if there are any, and four for dk and dv.
    """
    D, M = padded(p.shape.D), padded(p.shape.M)
    of_group, of_head = _summed(p) * M, _seen(p, p.blocks.attend) * (D + M)
    if trains:
        of_group *= 2
        of_head += _seen(p, p.blocks.queries) * (2 * D + M)
        of_head += _seeing(p) * (2 * D + 2 * M) + (_shared(p) * (D + M) if through_table else 0)
    return 2.0 * (p.shape.groups * of_group + p.shape.heads * of_head)


def _segments(p: Plan) -> list[tuple[int, int]]:
    """List the first token and the end of each segment."""
    N, tokens = p.shape.N, p.cut.tokens
    return [(first, min(first + tokens, N)) for first in range(0, N, tokens)]


def _whole(size: int, block: int) -> int:
    """Round up to whole blocks."""
    return -(-size // block) * block


def _seen(p: Plan, how: Launch) -> int:
    """Count the (query, key or code) pairs of the tiles that queries walk, in one head."""
    lag = 2 if p.shape.causal else 0
    tables, pairs = _whole(p.shape.S, how.other), 0
    for n, (first, stop) in enumerate(_segments(p)):
        left = max(0, first - p.cut.tokens)
        for start in range(first, stop, how.own):
            window = _whole(min(start + how.own, stop) - left, how.other) if p.shape.causal else 0
            pairs += how.own * (window + (tables if n >= lag else 0))
    return pairs


def _seeing(p: Plan) -> int:
    """Count the (key, query) pairs of the tiles that keys walk."""
    how = p.blocks.keys
    if not p.shape.causal:
        return 0
    walks = (
        min(first + 2 * p.cut.tokens, p.shape.N) - start
        for first, stop in _segments(p)
        for start in range(first, stop, how.own)
    )
    return how.own * sum(_whole(tokens, how.other) for tokens in walks)


def _summed(p: Plan) -> int:
    """Count the (code, token) pairs of the segments that end with a table."""
    how = p.blocks.sums
    tokens = sum(_whole(stop - first, how.other) for first, stop in _segments(p)[: p.cut.tables])
    return _whole(p.shape.S, how.own) * tokens


def _shared(p: Plan) -> int:
    """Count the (code, query) pairs of the segments that see a table."""
    how, lag = p.blocks.codes, 2 if p.shape.causal else 0
    tokens = sum(_whole(stop - first, how.other) for first, stop in _segments(p)[lag:])
    return _whole(p.shape.S, how.own) * tokens
