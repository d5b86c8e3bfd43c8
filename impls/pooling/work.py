"""FLOPs and least traffic of some queries with some keys by torch's fused kernel.

B batch, H heads, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

_FUSED_BACKWARD = 5
"""Products of a backward that computes the scores again, where the forward has two (Dao et al. 2022, appendix B)."""


def fused_cost(p: Problem, workload: Workload, queries: int, keys: int, seen: float | None = None) -> Cost:
    """Compute the cost of `queries` and `keys` in each head: two products over all pairs, four more in the backward.

    Executed at the wider of D and M, with scores that are computed again in the backward. `seen` counts the visible keys of all
    samples, where some are hidden.
    """
    both, pairs = workload is Workload.FORWARD_BACKWARD, 2.0 * p.B * p.H * queries * keys
    needed = pairs if seen is None else 2.0 * p.H * queries * seen
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=needed * (p.D + p.M) * (3 if both else 1),
        executed_flops=pairs * max(p.D, p.M) * (2 + (_FUSED_BACKWARD if both else 0)),
        traffic_bytes=io_bytes(p, workload),
    )
