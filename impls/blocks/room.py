"""How much is worked on at a time: what stays in a CPU's cache; a GPU wants more."""

from torch import Tensor

QUERIES = 2**14
"""Queries that are attended together."""
HEADS = 16
"""Heads of q that are attended together: enough for long products, few enough that each brings many queries."""
SCORES = 2**20
"""Scores of blocks that are held while the best are looked for."""


def at_once(x: Tensor, count: int) -> int:
    """So many on the device of x."""
    return count if x.device.type == "cpu" else 64 * count
