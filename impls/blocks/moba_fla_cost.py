"""What one call of `parallel_moba` in flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, N tokens, L tokens of a block, E blocks chosen by a query, D width of queries, keys and values.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .choosing import Choice
from .moba_cost import exact_flops
from .work import WALKS, Pairs


def cost_of_parallel_moba(p: Problem, workload: Workload, choice: Choice) -> Cost:
    """Compute the cost of one call, in which every query is scored against the blocks of all samples.

    Own blocks count the half that a causal kernel needs.
    """
    pairs = Pairs.of(p, workload, choice)
    targets = _targets(p, choice)
    scored = p.B * p.H * p.N * targets * p.D
    walked = p.B * p.H * WALKS[workload] * (pairs.own + pairs.chosen) * p.D
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload, choice),
        executed_flops=2.0 * (scored + walked),
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=_peak(p, workload, choice, pairs.chosen // choice.block),
    )


def _targets(p: Problem, choice: Choice) -> int:
    """Count the blocks of all samples that can be chosen: all but the last of each."""
    return p.B * (-(-p.N // choice.block) - 1)


def _peak(p: Problem, workload: Workload, choice: Choice, chosen: int) -> float:
    """Count the bytes of the larger of two phases: float32 scores with three masks, or the two streams.

    The streams hold a query once for each block, copies of k and v, and a wide output.
    """
    rows, e = p.B * p.H * p.N, p.dtype.bytes
    scores = rows * _targets(p, choice) * (4 + 3)
    copies = 4 * rows * p.D * e
    gathered = p.B * p.H * chosen * p.D
    streams = copies + gathered * 2 * e + rows * p.D * (2 * e + 4)
    trains = workload is Workload.FORWARD_BACKWARD
    return float(max(copies + scores, streams + (gathered * 4 * e + rows * p.D * 7 * e if trains else gathered * 4)))
