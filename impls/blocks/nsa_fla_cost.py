"""What one call of `parallel_nsa` in flash-linear-attention 0.6 computes and allocates, read off its source.

B batch, H heads, K heads of k and v, N tokens, L tokens of a block, D width of queries, keys and values.
"""

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .nsa_cost import choice_of, exact_flops, traffic_bytes
from .nsa_options import NsaOptions
from .work import Pairs

_BACKWARD = 7
"""Products of each pair in the Triton kernels' backward: one walk for dq, one for dk and dv, and scores and dP in each."""
_FLASH_BACKWARD = 5


def cost_of_parallel_nsa(p: Problem, workload: Workload, options: NsaOptions) -> Cost:
    """Selected blocks whole, each token's means up to a tile of L, and their scores once more to select."""
    pairs, L, trains = Pairs.of(p, workload, choice_of(options)), options.block, workload is Workload.FORWARD_BACKWARD
    # the own block is walked whole too; of the means whole tiles of L
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
    """Three branches, their sums, a logsumexp each and the indices; in the backward dL/do of a branch and gradients twice."""
    e, rows, keys = p.dtype.bytes, p.B * p.H * p.N, p.B * p.kv_heads * p.N
    kept = rows * (3 * p.D * e + 3 * 4) + keys * 4 * options.selected + keys // options.block * 2 * p.D * e
    if not trains:
        return float(kept + rows * 2 * p.D * e)
    return float(kept + rows * p.D * e * 5 + 2 * keys * 2 * p.D * e)
