"""FLOPs of NSA's three branches, and the bytes that a call moves.

B batch, H heads, K heads of k and v, N tokens, L tokens of a block, E blocks chosen by a query, D query/key width, M value
width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .eager.choosing import Choice
from .eager.tiles import Stairs, Window
from .nsa_options import NsaOptions
from .work import WALKS, Pairs, causal_pairs, products

GATES = 3


def cost_of_nsa(p: Problem, workload: Workload, options: NsaOptions) -> Cost:
    """Compute the cost of one call, without the padding of lists, which depends on the data."""
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload, options),
        executed_flops=_executed(p, workload, options),
        traffic_bytes=traffic_bytes(p, workload) + _state_moved(p, workload, options),
    )


def exact_flops(p: Problem, workload: Workload, options: NsaOptions) -> float:
    """Count the products of the three branches; selection reuses the scores of the compressed branch."""
    pairs = Pairs.of(p, workload, choice_of(options))
    seen = pairs.complete + pairs.own + pairs.chosen + pairs.window(options.window)
    return products(workload) * p.B * p.H * seen * (p.D + p.M)


def traffic_bytes(p: Problem, workload: Workload) -> float:
    """Count the bytes of q, k, v and o, and of three gates a query.

    Training reads the gates again and writes their gradients.
    """
    queries = p.B * p.H * (1 if workload is Workload.DECODE else p.N)
    times = 3 if workload is Workload.FORWARD_BACKWARD else 1
    return io_bytes(p, workload) + float(GATES * times * queries * p.dtype.bytes)


def choice_of(options: NsaOptions) -> Choice:
    """Describe the choice: E is `selected` without the own block."""
    return Choice(options.block, options.selected - 1)


def _executed(p: Problem, workload: Workload, options: NsaOptions) -> float:
    """Count own blocks and tiles as the fused kernel walks them, and the scores of blocks once more to choose by."""
    if workload.decodes:
        return exact_flops(p, workload, options)
    pairs, L = Pairs.of(p, workload, choice_of(options)), options.block
    own = p.N // L * causal_pairs(L) + causal_pairs(p.N % L)
    patterns = Stairs(L), Window(options.window)
    tiles = sum((t.stop - t.start) * (t.end - t.first) for pattern in patterns for t in pattern.tiles(p.N))
    walked = WALKS[workload] * (own + pairs.chosen + tiles) * max(p.D, p.M)
    return p.B * p.H * 2.0 * (pairs.complete * p.D + walked)


def _state_moved(p: Problem, workload: Workload, options: NsaOptions) -> float:
    """Count the bytes of the state that decoding reads (means, selected blocks, window) and writes (its own token)."""
    if not workload.decodes:
        return 0.0
    pairs = Pairs.of(p, workload, choice_of(options))
    # the own and the chosen blocks may lie within the window, or hold it
    read = pairs.complete + max(pairs.own + pairs.chosen, pairs.window(options.window))
    return float(p.B * p.kv_heads * p.dtype.bytes * (read + len(pairs.tokens)) * (p.D + p.M))
