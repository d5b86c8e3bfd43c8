"""Seeds of inputs."""

import hashlib

from attnbench.schema.cell import Cell


def draw_seed(suite_seed: int, cell: Cell, replicate: int) -> int:
    """One seed per shape and replicate: fresh inputs in each replicate, the same for all methods of a block."""
    text = f"{suite_seed}/{cell.problem.model_dump_json()}/{cell.inputs}/{replicate}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
