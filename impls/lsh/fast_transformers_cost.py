"""What one call of pytorch-fast-transformers' ReformerAttention computes and allocates, for two heads or more.

B batch, H heads, N tokens, D width of queries, keys and values, m bucket size; a query has 2 m pairs in a round.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .fast_transformers_options import Options
from .traffic import least_bytes

_MASK_BYTES = 4
"""Bytes of a number in the package's masks, which are float32 whatever the dtype."""


def cost_of_package(p: Problem, options: Options, workload: Workload) -> Cost:
    """Compute the cost of hashing, which has no backward, and of R rounds over two chunks, including hidden pairs.

    A first chunk has no chunk before it.
    """
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
    passes, m = (3.0 if trains else 1.0), options.bucket_size
    hashing = rows * options.rounds * 2.0 * p.D * options.bits
    pair = passes * options.rounds * p.B * p.H * 2.0 * (p.D + p.M)
    peak = rows * (_backward_peak(p, options) if trains else _forward_peak(p, options))
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=hashing + pair * m * (2 * p.N - m),
        executed_flops=hashing + pair * m * 2 * p.N,
        traffic_bytes=least_bytes(p, workload),
        peak_bytes=float(max(peak + _mask(p, options), _masks_in_the_making(p, options))),
    )


def _forward_peak(p: Problem, options: Options) -> float:
    """Count the bytes per row of one round beside the sum of those before: gathered rows, masks, and the logits twice."""
    pairs = 2 * options.bucket_size
    hashing = p.D * (2 + (options.rounds > 1)) + 4 * options.bits
    attention = p.D * (9 + (options.rounds > 1)) + 2 * pairs + options.bits + 5
    return max(hashing, attention) * p.dtype.bytes + pairs * _MASK_BYTES + 24


def _backward_peak(p: Problem, options: Options) -> float:
    """Count the bytes per row of five rows and the weights that each round keeps, and of what the last one computes."""
    pairs, rounds = 2 * options.bucket_size, options.rounds
    elements = rounds * (5 * p.D + pairs) + (8 + (rounds > 1)) * p.D + pairs + options.bits
    return elements * p.dtype.bytes + pairs * _MASK_BYTES + 16 * rounds + 16


def _mask(p: Problem, options: Options) -> float:
    """Count the bytes of N × N for each sample where anything is hidden."""
    return p.B * p.N * p.N * _MASK_BYTES if p.causal or options.masked else 0


def _masks_in_the_making(p: Problem, options: Options) -> float:
    """Count the bytes while masks are built: a diagonal with its product and their sum, then the causal one added."""
    squares = max(2, 1 + p.B) if options.masked else 0
    if options.masked and p.causal:
        squares = max(squares, 2 * p.B)
    return squares * p.N * p.N * _MASK_BYTES
