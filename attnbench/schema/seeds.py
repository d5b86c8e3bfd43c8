"""Seeds of inputs."""

import hashlib
import json

from attnbench.schema.cell import Cell


def draw_seed(suite_seed: int, cell: Cell, replicate: int) -> int:
    """One seed per shape and replicate: fresh inputs in each replicate, the same for all methods of a block."""
    # canonical: a field added later changes no old seed
    shape = json.dumps(cell.problem.canonical(), sort_keys=True)
    text = f"{suite_seed}/{shape}/{cell.inputs}/{replicate}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
