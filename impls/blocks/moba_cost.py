"""FLOPs of MoBA's products, and the bytes that a call moves.

B batch, H heads, K heads of k and v, N tokens, L tokens of a block, E blocks chosen by a query, D query/key width, M value
width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .eager.choosing import Choice
from .work import WALKS, Pairs, causal_pairs, products


def cost_of_moba(p: Problem, workload: Workload, choice: Choice) -> Cost:
    """Compute the cost of one call, without the padding of lists, which depends on the data."""
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload, choice),
        executed_flops=_executed(p, workload, choice),
        traffic_bytes=io_bytes(p, workload) + _state_moved(p, workload, choice),
    )


def exact_flops(p: Problem, workload: Workload, choice: Choice) -> float:
    """Count the scores of earlier blocks, which have no gradient, and the products over own and chosen blocks."""
    pairs = Pairs.of(p, workload, choice)
    return p.B * p.H * (2.0 * pairs.candidates * p.D + products(workload) * (pairs.own + pairs.chosen) * (p.D + p.M))


def _executed(p: Problem, workload: Workload, choice: Choice) -> float:
    """Count own blocks as the fused kernel walks them, with all widths padded to one."""
    if workload.decodes:
        return exact_flops(p, workload, choice)
    pairs, L = Pairs.of(p, workload, choice), choice.block
    own = p.N // L * causal_pairs(L) + causal_pairs(p.N % L)
    return p.B * p.H * 2.0 * (pairs.candidates * p.D + WALKS[workload] * (own + pairs.chosen) * max(p.D, p.M))


def _state_moved(p: Problem, workload: Workload, choice: Choice) -> float:
    """Count the bytes of state that decoding reads (means, chosen blocks) and writes (each token, a mean per full block).

    Heads of q that share one of k may choose the same blocks, so that as many keys are the least that has to be read.
    """
    if not workload.decodes:
        return 0.0
    pairs, wide = Pairs.of(p, workload, choice), p.D + p.M
    of_each_key = pairs.candidates * p.D + (pairs.own + len(pairs.tokens)) * wide
    return float(p.B * p.dtype.bytes * (p.kv_heads * (of_each_key + pairs.chosen * wide)))
