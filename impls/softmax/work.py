"""FLOPs of matrix products and bytes moved by softmax attention, by formula.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Scalar, Workload, dense_flops, io_bytes, nominal_flops

FLASH_BACKWARD = 5
"""Products of a backward that computes the scores again; one that kept them has four (Dao et al. 2022, appendix B)."""


def cost(problem: Problem, workload: Workload, *, executed: float) -> Cost:
    """Compute the cost of exact attention, with a cache where it decodes, from the executed FLOPs."""
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=exact_flops(problem, workload),
        executed_flops=executed,
        traffic_bytes=io_bytes(problem, workload) + cache_bytes_moved(problem, workload),
    )


def exact_flops(problem: Problem, workload: Workload) -> float:
    """Count two products over the visible pairs of query and key, and four more in the backward."""
    p = problem
    if workload.decodes:
        return nominal_flops(p, workload)
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2.0 * p.H * _visible_pairs(p) * (p.D + p.M)


def _visible_pairs(p: Problem) -> float:
    """Count a batch's visible pairs: N · length, or if causal length (length + 1) / 2, and length for each query beyond."""
    if not p.causal:
        return float(sum(p.N * n for n in p.lengths))
    return sum(n * (n + 1) / 2 + (p.N - n) * n for n in p.lengths)


def square_flops(problem: Problem, workload: Workload, *, backward_products: int) -> float:
    """Count both products of every pair, hidden or not, and `backward_products` in the backward; a step hides nothing."""
    p = problem
    if workload.decodes:
        return nominal_flops(p, workload)
    products = 2 + (backward_products if workload is Workload.FORWARD_BACKWARD else 0)
    return products * float(p.B * p.H * p.N * p.N) * (p.D + p.M)


def fused_flops(problem: Problem, workload: Workload) -> float:
    """Count for a kernel that skips what a causal call hides, and computes the scores again in the backward."""
    if workload.decodes:
        return nominal_flops(problem, workload)
    return dense_flops(problem) * ((2 + FLASH_BACKWARD) / 2 if workload is Workload.FORWARD_BACKWARD else 1.0)


def cache_bytes_moved(problem: Problem, workload: Workload) -> float:
    """Count the bytes of the cache that steps read, each all tokens up to its own, which it writes."""
    tokens = {Workload.DECODE: problem.N, Workload.DECODE_TOTAL: problem.N * (problem.N + 1) / 2}.get(workload, 0)
    return tokens * cache_bytes(problem, 1)


def cache_bytes(problem: Problem, tokens: int) -> float:
    """Count the bytes of keys and values of that many tokens: B K tokens (D + M) elements."""
    return float(problem.B * problem.kv_heads * tokens * (problem.D + problem.M) * problem.dtype.bytes)


def refuse_parameters(params: dict[str, Scalar]) -> None:
    """Raise TypeError on any parameter, without building the method, whose package may be missing."""
    if params:
        raise TypeError(f"unexpected parameter {next(iter(params))!r}: softmax attention takes none")
