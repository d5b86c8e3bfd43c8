"""What one call of transformers' LSHSelfAttention computes and allocates, tensor by tensor.

A slot is one token in one round. B batch, H heads, N tokens, D width, m bucket size.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .traffic import least_bytes
from .transformers_options import Options


def cost_of_package(p: Problem, options: Options, workload: Workload) -> Cost:
    """Compute the cost of hashing, which has no backward, and R rounds over two or three chunks.

    A causal call computes what it hides.
    """
    trains, slots = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N * options.rounds
    hashing = slots * p.D * sum(options.factors(p.N))
    attention = slots * 2.0 * _pairs(options) * (p.D + p.M)
    work = hashing + (3.0 if trains else 1.0) * attention
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=work,
        executed_flops=work,
        traffic_bytes=least_bytes(p, workload),
        peak_bytes=float(slots * (_backward_peak(p, options) if trains else _forward_peak(p, options))),
    )


def _pairs(options: Options) -> int:
    """Count the keys of a slot: 2 m or 3 m."""
    return options.bucket_size * (2 + options.look_forward)


def _forward_peak(p: Problem, options: Options) -> float:
    """Count the bytes for each slot, the largest of four moments.

    These are: the projections with their negatives; neighbours joined to keys and values; the logits beside both; and, beside
    the values with their neighbours, the logits and the softmax, twice.
    """
    D, pairs, look, factors = p.D, _pairs(options), 2 + options.look_forward, options.factors(p.N)
    hashing = sum(factors) / 2 + 1.5 * max(factors)
    neighbours, logits, softmax = (2 + 3 * look) * D, (3 + 2 * look) * D + pairs, (3 + look) * D + 3 * pairs
    return max(hashing, neighbours, logits, softmax) * p.dtype.bytes + 8 * look + 32


def _backward_peak(p: Problem, options: Options) -> float:
    """Count the bytes for each slot: what was saved, with five times the logits, or three times and gathered gradients."""
    D, pairs, look = p.D, _pairs(options), 2 + options.look_forward
    gathered = max((3 + 2 * look) * D + 5 * pairs, (4 + 3 * look) * D + 3 * pairs) + 3
    return (gathered + D / options.rounds) * p.dtype.bytes + pairs * (1 + p.causal) + 16
