"""FLOPs and bytes of attention of pooled queries, by formula.

B batch, H heads, K heads of k and v, N tokens, S blocks, D query/key width, M value width, W the wider of the two.
"""

from attnbench.api import Cost, Problem, Workload

from .blocks import block_count
from .limits import refuse_bad_factor
from .work import Call


def cost(p: Problem, workload: Workload, factor: int = 2) -> Cost:
    """Compute the cost of one call. Raises ValueError on a bad factor."""
    refuse_bad_factor(factor)
    call = Call(p, block_count(p.N, factor), p.N)
    spread = call.rows(p.H, call.queries * min(factor, p.N), p.M)
    both = workload is Workload.FORWARD_BACKWARD
    return call.cost(workload, _backward(call, spread) if both else _forward(call, spread))


def _forward(call: Call, spread: float) -> float:
    """Count the bytes while the kernel attends, or while its output is spread over the tokens, whichever are more."""
    return max(_kept(call) + call.forward_scratch, call.rows(call.p.H, call.queries, call.width) + spread)


def _backward(call: Call, spread: float) -> float:
    """Count the bytes beside the output: while the kernel's backward runs, or while dq is spread from that of the means."""
    p = call.p
    summed = call.rows(p.H, call.queries, call.width) if call.width == p.M else 0
    gradients = call.rows(p.H, p.N, p.D) + call.rows(p.kv_heads, p.N, p.D + p.M)
    return spread + max(_kept(call) + summed + call.pulling_back, gradients + 2 * call.rows(p.H, call.queries, p.D))


def _kept(call: Call) -> float:
    """Count the bytes of the mean queries, their output with its logsumexp, and padding of k and v."""
    p = call.p
    filled = call.rows(p.kv_heads, p.N, call.width) if p.D != p.M else 0
    return call.rows(p.H, call.queries, call.width) + filled + call.output
