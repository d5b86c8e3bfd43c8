"""FLOPs and bytes of attention among the most attended tokens, by formula.

B batch, H heads, K heads of k and v, N tokens, l tokens kept, D query/key width, M value width, W the wider of the two.
"""

from attnbench.api import Cost, Problem, Workload

from .elimination import SCORES, kept_count
from .limits import refuse_bad_share
from .work import Call


def cost(p: Problem, workload: Workload, keep: float = 0.5) -> Cost:
    """Compute the cost of one call. Raises ValueError on a bad share."""
    refuse_bad_share(keep)
    kept = kept_count(p.N, keep)
    call = Call(p, kept, kept)
    peak = max(_choosing(p), _backward(call) if workload is Workload.FORWARD_BACKWARD else _forward(call))
    attended, scores = call.cost(workload, peak), 2.0 * p.B * p.H * p.N * p.N * p.D
    # the choice has no gradient
    more = {name: getattr(attended, name) + scores for name in ("exact_flops", "executed_flops")}
    return attended.model_copy(update=more)


def _choosing(p: Problem) -> float:
    """Count the bytes of a block's scores, its scaled queries, and the sums."""
    wide, narrow = max(4, p.dtype.bytes), p.dtype.bytes
    rows = p.kv_heads * min(max(1, SCORES // (p.kv_heads * p.N)), p.H // p.kv_heads * p.N)
    each = wide + narrow if narrow < wide else wide
    return float(rows * (p.N * each + p.D * narrow) + p.B * p.N * wide)


def _forward(call: Call) -> float:
    """Count the bytes while the kernel attends, or while its output is written among zeros, whichever are more."""
    p, tokens = call.p, call.queries
    gathered = call.rows(p.H + p.kv_heads, tokens, p.D) + call.rows(p.kv_heads, tokens, p.M)
    narrow = p.H + p.kv_heads if p.D < p.M else p.kv_heads if p.M < p.D else 0
    attending = gathered + call.rows(narrow, tokens, call.width) + call.forward_scratch
    return call.output + max(attending, call.rows(p.H, p.N, p.M))


def _backward(call: Call) -> float:
    """Count the bytes beside the output: while the kernel's backward runs, or while gradients are written among zeros."""
    p, tokens = call.p, call.queries
    kept = call.rows(p.H + 2 * p.kv_heads, tokens, call.width) + call.output
    copied = call.rows(p.H, tokens, p.M) * (2 if call.width == p.M else 1)
    gradients = call.rows(p.H, p.N, p.D) + call.rows(p.kv_heads, p.N, p.D + p.M)
    return call.rows(p.H, p.N, p.M) + max(kept + copied + call.pulling_back, gradients + call.rows(p.H, tokens, p.D))
