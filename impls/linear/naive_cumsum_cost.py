"""FLOPs and bytes of keeping all states as naive_cumsum.py does.

B batch, H heads, K heads of k and v, N tokens, C width of φ, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .family import LinearFamily
from .work import Sizes, decoding_cost, exact_flops


def cost_of_all_states(problem: Problem, method: LinearFamily, workload: Workload) -> Cost:
    """Count FLOPs and bytes; outer products count as products. The peak is a few times B K N C M."""
    s, trains = Sizes(problem, method), workload is Workload.FORWARD_BACKWARD
    if workload.decodes:
        return decoding_cost(s, workload)
    exact = exact_flops(s, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=exact,
        executed_flops=exact + (3.0 if trains else 1.0) * 2.0 * s.queries * s.C,
        traffic_bytes=io_bytes(problem, workload),
        peak_bytes=_peak(s, trains),
    )


def _peak(s: Sizes, trains: bool) -> float:
    """Count the bytes of all outer products and states, φ(q), φ(k) and its sums; in the backward four times all states."""
    states, beside = s.keys * s.C * s.p.M, (s.queries + 2 * s.keys) * s.C
    return ((4.0 if trains else 2.0) * states + beside) * s.apart
