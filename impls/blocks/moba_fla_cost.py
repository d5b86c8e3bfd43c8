"""What one call of `parallel_moba` in flash-linear-attention 0.6 computes and allocates, read off its source.

B batch, H heads, N tokens, L tokens of a block, E blocks chosen by a query, D width of queries, keys and values.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .choosing import Choice
from .moba_cost import exact_flops
from .work import WALKS, Pairs


def cost_of_parallel_moba(p: Problem, workload: Workload, choice: Choice) -> Cost:
    """Every query is scored against the blocks of all samples; of own blocks the half that a causal kernel needs."""
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
    """Blocks that can be chosen, of all samples: all but the last of each."""
    return p.B * (-(-p.N // choice.block) - 1)


def _peak(p: Problem, workload: Workload, choice: Choice, chosen: int) -> float:
    """Scores in float32 with three masks; or the two streams: queries once for each block, copies of k and v, a wide output."""
    rows, e = p.B * p.H * p.N, p.dtype.bytes
    scores = rows * _targets(p, choice) * (4 + 3)
    copies = 4 * rows * p.D * e
    gathered = p.B * p.H * chosen * p.D
    streams = copies + gathered * 2 * e + rows * p.D * (2 * e + 4)
    trains = workload is Workload.FORWARD_BACKWARD
    return float(max(copies + scores, streams + (gathered * 4 * e + rows * p.D * 7 * e if trains else gathered * 4)))
