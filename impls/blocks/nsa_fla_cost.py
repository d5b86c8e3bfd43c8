"""What one call of `parallel_nsa` in flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, K heads of k and v, N tokens, L tokens of a block, D width of queries, keys and values.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .nsa_cost import choice_of, exact_flops, traffic_bytes
from .nsa_options import NsaOptions
from .work import Pairs

_BACKWARD = 7
"""Matrix products per pair in the Triton kernels' backward: dq, dk, dv, and scores and dP in each of two passes."""
_FLASH_BACKWARD = 5


def cost_of_parallel_nsa(p: Problem, workload: Workload, options: NsaOptions) -> Cost:
    """Compute the cost of one call: selected blocks are read whole and means up to a tile of L, which are scored twice."""
    pairs, L, trains = Pairs.of(p, workload, choice_of(options)), options.block, workload is Workload.FORWARD_BACKWARD
    # the own block is read whole too, and means in whole tiles of L
    selected = pairs.chosen + p.N * L
    means = sum(-(-((i + 1) // L) // L) * L for i in range(p.N))
    kernels = (selected + means) * (2 + _BACKWARD * trains)
    window = pairs.window(options.window) * (2 + _FLASH_BACKWARD * trains)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload, options),
        executed_flops=2.0 * p.B * p.H * (kernels + window + means) * p.D,
        traffic_bytes=traffic_bytes(p, workload),
        peak_bytes=_peak(p, trains, options),
    )


def _peak(p: Problem, trains: bool, options: NsaOptions) -> float:
    """Count the bytes of three branches, their sums, a logsumexp each and the indices; in training also dL/do and gradients."""
    e, rows, keys = p.dtype.bytes, p.B * p.H * p.N, p.B * p.kv_heads * p.N
    kept = rows * (3 * p.D * e + 3 * 4) + keys * 4 * options.selected + keys // options.block * 2 * p.D * e
    if not trains:
        return float(kept + rows * 2 * p.D * e)
    return float(kept + rows * p.D * e * 5 + 2 * keys * 2 * p.D * e)
