"""FLOPs and bytes of attention over pooled keys and values, by formula.

B batch, H heads, K heads of k and v, N tokens, S blocks, D query/key width, M value width, W the wider of the two.
"""

from attnbench.api import Cost, Problem, Workload

from .blocks import block_count
from .limits import refuse_bad_factor
from .work import Call


def cost(p: Problem, workload: Workload, factor: int = 4) -> Cost:
    """Compute the cost of one call. Raises ValueError on a bad factor."""
    refuse_bad_factor(factor)
    call = Call(p, p.N, block_count(p.N, factor))
    peak = _backward(call) if workload is Workload.FORWARD_BACKWARD else _forward(call)
    return call.cost(workload, peak, seen=float(sum(block_count(length, factor) for length in p.lengths)))


def _forward(call: Call) -> float:
    """Count the bytes of the means, the output and scratch."""
    return _kept(call) + call.forward_scratch


def _backward(call: Call) -> float:
    """Count the bytes while the kernel's backward runs, or while the second of dk and dv is spread from its means."""
    p = call.p
    pooled, whole = (max(call.rows(p.kv_heads, tokens, width) for width in (p.D, p.M)) for tokens in (call.keys, p.N))
    gradients = call.rows(p.H, p.N, p.D) + call.rows(p.kv_heads, p.N, p.D + p.M)
    # a mask adds a copy of one of them
    beside = max(2 * pooled, whole if p.padding else 0)
    return max(_kept(call) + call.pulling_back, call.rows(p.H, p.N, call.width) + gradients + beside)


def _kept(call: Call) -> float:
    """Count the bytes of means, the output with its logsumexp, and padding of queries."""
    p = call.p
    filled = call.rows(p.H, p.N, call.width) if call.width > p.D else 0
    return 2 * call.rows(p.kv_heads, call.keys, call.width) + filled + call.output
