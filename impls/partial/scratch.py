"""Scratch of one thread of torch's fused kernel on a CPU, and the blocks of queries that it takes.

Left out: the packed copies of k and v that some CPUs make of float16 and bfloat16. D query/key width, M value width.
"""

from attnbench.api import Problem


def forward_scratch(p: Problem, queries: int, keys: int) -> int:
    """Count the bytes of a block's scores, their maxima and sums, and its output."""
    return _block(queries) * (min(512, keys) + 2 + max(p.D, p.M)) * max(4, p.dtype.bytes)


def backward_scratch(p: Problem, queries: int, keys: int) -> int:
    """Count the bytes of probabilities and gradients of scores in the backward."""
    return 2 * _block(queries) * min(512, keys) * max(4, p.dtype.bytes)


def queries_at_once(queries: int) -> int:
    """Count the queries of a block, which depends on the number of all queries."""
    return 256 if queries >= 768 else 64 if queries >= 192 else 32


def _block(queries: int) -> int:
    """Count the queries of a block, at most all."""
    return min(queries, queries_at_once(queries))
