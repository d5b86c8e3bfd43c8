"""FLOPs of NSA's three branches, and the bytes that a call moves and holds.

B batch, H heads, K heads of k and v, N tokens, L tokens of a block, E blocks chosen by a query, D query/key width, M value
width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .choosing import Choice
from .footprint import (
    Sizes,
    choosing,
    chosen_bytes,
    decoding_peak,
    over_blocks,
    over_blocks_back,
    over_tiles,
    over_tiles_back,
)
from .nsa_options import NsaOptions
from .tiles import Pattern, Stairs, Window
from .work import WALKS, Pairs, causal_pairs, products

GATES = 3


def cost_of_nsa(p: Problem, workload: Workload, options: NsaOptions) -> Cost:
    """Compute the cost of one call, without the padding of lists, which depends on the data."""
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload, options),
        executed_flops=_executed(p, workload, options),
        traffic_bytes=traffic_bytes(p, workload) + _state_moved(p, workload, options),
        peak_bytes=float(_peak(p, workload, options)),
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
    tiles = sum(_pairs(pattern, p.N) for pattern in _patterns(options))
    walked = WALKS[workload] * (own + pairs.chosen + tiles) * max(p.D, p.M)
    return p.B * p.H * 2.0 * (pairs.complete * p.D + walked)


def _patterns(options: NsaOptions) -> tuple[Pattern, Pattern]:
    return Stairs(options.block), Window(options.window)


def _pairs(pattern: Pattern, N: int) -> int:
    return sum((t.stop - t.start) * (t.end - t.first) for t in pattern.tiles(N))


def _state_moved(p: Problem, workload: Workload, options: NsaOptions) -> float:
    """Count the bytes of the state that decoding reads (means, selected blocks, window) and writes (its own token)."""
    if not workload.decodes:
        return 0.0
    pairs = Pairs.of(p, workload, choice_of(options))
    read = pairs.complete + pairs.own + pairs.chosen + pairs.window(options.window)
    return float(p.B * p.kv_heads * p.dtype.bytes * (read + len(pairs.tokens)) * (p.D + p.M))


def _peak(p: Problem, workload: Workload, options: NsaOptions) -> float:
    s, choice = Sizes(p), choice_of(options)
    if workload.decodes:
        state = s.X * (p.N + p.N // options.block) * (p.D + p.M) * s.e
        return decoding_peak(s, choice) + (state if workload is Workload.DECODE_TOTAL else 0)
    return _forward(s, options) if workload is Workload.FORWARD else _training(s, options)


def _forward(s: Sizes, options: NsaOptions) -> float:
    """Count the bytes at the peak of the forward, which runs one branch after the other beside their sum."""
    choice, chosen = choice_of(options), chosen_bytes(s, choice_of(options))
    tiled = max(over_tiles(s, pattern) for pattern in _patterns(options))
    gated = 2 * s.output + s.rows * s.sum
    branches = chosen + _means(s, options) + max(over_blocks(s, choice, forced=True), s.output + tiled, gated)
    return max(branches, chosen + choosing(s, choice, by_weight=True))


def _training(s: Sizes, options: NsaOptions) -> float:
    """Count the bytes at the peak of training, where the backward frees the three branches, last one first."""
    choice, (stairs, window) = choice_of(options), _patterns(options)
    branch, gradient_of_branch = s.output + s.rows * s.sum, s.output
    in_turn = (
        3 * branch + max(over_tiles_back(s, window, s.p.N), s.output),
        2 * branch + s.gradients + over_tiles_back(s, stairs, s.p.N // options.block),
        branch + s.gradients + over_blocks_back(s, choice, forced=True),
    )
    return chosen_bytes(s, choice) + _means(s, options) + s.output + gradient_of_branch + max(in_turn)


def _means(s: Sizes, options: NsaOptions) -> int:
    return s.X * (s.p.N // options.block) * (s.p.D + s.p.M) * s.e
