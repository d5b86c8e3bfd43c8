"""The amount that is worked on at a time: sizes for a CPU's cache, from which a GPU's follow."""

from torch import Tensor

QUERIES = 2**14
"""Number of queries that are attended together."""
HEADS = 16
"""Number of heads of q that are attended together: enough for long products, few enough that each brings many queries."""
SCORES = 2**20
"""Number of block scores that are held while the best are looked for."""


def at_once(x: Tensor, count: int) -> int:
    """Scale a CPU's count to the device of x: a GPU takes 64 times as many."""
    return count if x.device.type == "cpu" else 64 * count
