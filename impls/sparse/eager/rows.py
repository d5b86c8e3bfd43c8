"""Samples and heads that are walked together: rows of folded tensors at equal steps, which views can select.

B batch, H heads, K heads of k and v.
"""

from collections.abc import Iterator
from functools import lru_cache


# as many documents in a row may have lengths of their own
@lru_cache(maxsize=4096)
def walks(B: int, H: int, kv_heads: int, heads: tuple[int, ...], most: int) -> tuple[tuple[range, range], ...]:
    """Group rows of q [B·H] with their rows of k and v [B·K], at most `most` together, and no row of k and v twice."""
    group = H // kv_heads
    # heads that share k and v are walked one after the other
    order = sorted(((b, h) for b in range(B) for h in heads), key=lambda row: (row[1] % group, row))
    return tuple(_ranges([(b * H + h, b * kv_heads + h // group) for b, h in order], most))


def _ranges(rows: list[tuple[int, int]], most: int) -> Iterator[tuple[range, range]]:
    start = 0
    while start < len(rows):
        stop = start + 1
        while stop < min(len(rows), start + most) and _continues(rows[start : stop + 1]):
            stop += 1
        yield _range([q for q, _ in rows[start:stop]]), _range([k for _, k in rows[start:stop]])
        start = stop


def _continues(rows: list[tuple[int, int]]) -> bool:
    """Say whether the last step between rows equals the first."""
    (q0, k0), (q1, k1) = rows[:2]
    (q2, k2), (q3, k3) = rows[-2:]
    return (q3 - q2, k3 - k2) == (q1 - q0, k1 - k0) and k1 > k0


def _range(rows: list[int]) -> range:
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    return range(rows[0], rows[-1] + 1, step)
