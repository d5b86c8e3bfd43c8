"""Scratch of torch's fused kernel on a CPU, of one thread, and the blocks of queries that it takes.

Left out: the packed copies of k and v that some CPUs make of float16 and bfloat16. D query/key width, M value width.
"""

from attnbench.api import Problem


def forward_scratch(p: Problem, queries: int, keys: int) -> int:
    """Scores of a block, their maxima and sums, and the output that it is at."""
    return _block(queries) * (min(512, keys) + 2 + max(p.D, p.M)) * max(4, p.dtype.bytes)


def backward_scratch(p: Problem, queries: int, keys: int) -> int:
    """Probabilities and slopes."""
    return 2 * _block(queries) * min(512, keys) * max(4, p.dtype.bytes)


def queries_at_once(queries: int) -> int:
    """Of a block, by how many queries there are in all."""
    return 256 if queries >= 768 else 64 if queries >= 192 else 32


def _block(queries: int) -> int:
    """Not more than there are."""
    return min(queries, queries_at_once(queries))
