"""What one call of pytorch-fast-transformers' ReformerAttention computes and allocates, for two heads or more.

B batch, H heads, N tokens, D width of queries, keys and values, m bucket size; a query has 2 m pairs in a round.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .fast_transformers_options import Options
from .traffic import least_bytes

_MASK_BYTES = 4
"""Its masks are float32 whatever the dtype."""


def cost_of_package(p: Problem, options: Options, workload: Workload) -> Cost:
    """Hashing and R rounds over two chunks, what is hidden too. Hashing has no backward, a first chunk none before it."""
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
    """Bytes for each row, of one round beside the sum of those before: gathered rows, the mask of its pairs, logits twice."""
    pairs = 2 * options.bucket_size
    hashing = p.D * (2 + (options.rounds > 1)) + 4 * options.bits
    attention = p.D * (9 + (options.rounds > 1)) + 2 * pairs + options.bits + 5
    return max(hashing, attention) * p.dtype.bytes + pairs * _MASK_BYTES + 24


def _backward_peak(p: Problem, options: Options) -> float:
    """Bytes for each row: five rows and the weights saved of each round, and what the last one makes beside them."""
    pairs, rounds = 2 * options.bucket_size, options.rounds
    elements = rounds * (5 * p.D + pairs) + (8 + (rounds > 1)) * p.D + pairs + options.bits
    return elements * p.dtype.bytes + pairs * _MASK_BYTES + 16 * rounds + 16


def _mask(p: Problem, options: Options) -> float:
    """N × N for each sample where anything is hidden."""
    return p.B * p.N * p.N * _MASK_BYTES if p.causal or options.masked else 0


def _masks_in_the_making(p: Problem, options: Options) -> float:
    """A diagonal with its product and their sum, then the causal one added."""
    squares = max(2, 1 + p.B) if options.masked else 0
    if options.masked and p.causal:
        squares = max(squares, 2 * p.B)
    return squares * p.N * p.N * _MASK_BYTES
