"""Peaks of memory by formula, in bytes beyond inputs and state, as torch's allocator hands them out on a CPU.

Left out: scratch that kernels of a CPU keep for a thread, up to 2 MB, and the packed copies of k and v that some CPUs make of
float16 and bfloat16; on a GPU, the float32 sums of dq that a fused backward keeps. B batch, H heads, K heads of k and v, R = H
/ K, N tokens, D query/key width, M value width.
"""

from attnbench.api import Problem, Workload

from .work import cache_bytes


def naive_peak(problem: Problem, workload: Workload) -> float:
    """Count the bytes of scores with the mask or the output; in the backward P, dP, dS, o and dv."""
    p = problem
    if workload.decodes:
        return with_state(p, workload, p.B * p.H * (p.N + p.M) * p.dtype.bytes)
    square, output = p.B * p.H * p.N * p.N, p.B * p.H * p.N * p.M
    R = p.H // p.kv_heads
    mask = p.N * p.N * (R if R == 1 else R + 1) if p.causal else 0
    if workload is Workload.FORWARD_BACKWARD:
        return float((3 * square + output + p.B * p.kv_heads * p.N * p.M) * p.dtype.bytes)
    return float((square + max(mask, output)) * p.dtype.bytes)


def fused_peak(problem: Problem, workload: Workload) -> float:
    """Count the bytes of output, logsumexp (float32 at least) and mask; in the backward also dq, dk and dv."""
    p = problem
    rows = p.B * p.H * (1 if workload.decodes else p.N)
    output = rows * (p.M * p.dtype.bytes + max(4, p.dtype.bytes))
    if workload.decodes:
        return with_state(p, workload, output)
    if workload is Workload.FORWARD_BACKWARD:
        return float(output + p.B * p.N * (p.H * p.D + p.kv_heads * (p.D + p.M)) * p.dtype.bytes + _mask(p, 0))
    return float(output + _mask(p, 1))


def math_peak(problem: Problem, workload: Workload) -> float:
    """Count the bytes of the path with all scores in memory, in float32 at least.

    Forward: q scaled, and the larger of two moments: k scaled beside the scores, or scores, probabilities and a byte of each
    that marks rows with nothing to see. Backward: a third square, o and dv.
    """
    p, wide = problem, max(4, problem.dtype.bytes)
    if workload is Workload.FORWARD_BACKWARD:
        return float(wide * (3 * p.B * p.H * p.N * p.N + 2 * p.B * p.H * p.N * (p.D + p.M)))
    queries = p.B * p.H * (1 if workload.decodes else p.N)
    scores = queries * p.N * wide
    moment = max(p.B * p.H * p.N * p.D * wide + scores, 2 * scores + queries * p.N)
    return with_state(p, workload, queries * p.D * wide + _math_copies(p, queries) + _math_mask(p, workload) + moment)


def with_state(p: Problem, workload: Workload, peak: float) -> float:
    """Add the cache where a call decodes from nothing; before a step it already exists."""
    return float(peak + (cache_bytes(p, p.N) if workload is Workload.DECODE_TOTAL else 0))


def _math_copies(p: Problem, queries: int) -> float:
    """Count the bytes of q, k and v converted to float32, and of k and v repeated where heads are shared."""
    wide, keys = max(4, p.dtype.bytes), p.N * (p.D + p.M) * p.B
    cast = wide * (queries * p.D + keys * p.kv_heads) if p.dtype.bytes < wide else 0
    return cast + (wide * keys * p.H if p.kv_heads != p.H else 0)


def _math_mask(p: Problem, workload: Workload) -> float:
    """Count the bytes of a causal call's N × N mask; a step has none."""
    if workload.decodes or not p.causal:
        return 0
    return _mask(p, 1) if p.padding else p.N * p.N * max(4, p.dtype.bytes)


def _mask(p: Problem, boolean: int) -> float:
    """Count the bytes of a causal call's N × N masks with padding, in the dtype and, with `boolean`, as given."""
    return p.B * p.N * p.N * (p.dtype.bytes + boolean) if p.causal and p.padding else 0
