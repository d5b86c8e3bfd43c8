"""The walks of a pattern as the kernels read them: whole numbers on the device."""

import json
from dataclasses import asdict, dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..patterns.factorised import Fixed, Strided
from ..patterns.neighbours import Atrous, Local, Longformer, Window
from ..patterns.pattern import Pattern, Shape
from .walks import Row, Walk, key_walks, query_walks, words

_PATTERNS: dict[str, type[Pattern]] = {kind.__name__: kind for kind in (Strided, Fixed, Local, Atrous, Window, Longformer)}


@dataclass(frozen=True)
class Table:
    """A walk, and what the kernels read of it, int32 on the device.

    sharing [heads of k and v, 4]: the head, its rows from … to. rows [heads, 4]: the head, where its cells begin in a summary,
    its bands from … to. bands [., 16]: as `words` returns them.
    """

    walk: Walk
    sharing: Tensor
    rows: Tensor
    bands: Tensor


def described(pattern: Pattern) -> str:
    """Write a pattern as a string, which an operator can take; every other layer is alike, however deep the model is."""
    params = asdict(pattern)
    return json.dumps([type(pattern).__name__, {**params, **({"layer": params["layer"] % 2} if "layer" in params else {})}])


@lru_cache(maxsize=64)
def tables(pattern: str, shape: Shape, group: int, device: torch.device) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """Tabulate the walks of a `described` pattern, from the queries' side and the keys'; `group` heads share k and v."""
    kind, params = json.loads(pattern)
    parts = _PATTERNS[kind](**params).parts(shape)
    summary = next((part.summary for part in parts if part.summary), None)

    def table(walk: Walk) -> Table:
        # heads that have the same bands share their words
        runs = list(dict.fromkeys(row.bands for row in walk.rows))
        first = {run: sum(map(len, runs[:i])) for i, run in enumerate(runs)}
        rows = [[row.head, row.start, first[row.bands], first[row.bands] + len(row.bands)] for row in walk.rows]
        numbers = _sharing(walk.rows, group), rows, [words(band, summary) for run in runs for band in run]
        return Table(walk, *(torch.tensor(x, dtype=torch.int32, device=device) for x in numbers))

    return tuple(map(table, query_walks(parts, shape.N))), tuple(map(table, key_walks(parts, shape.N, group)))


def _sharing(rows: tuple[Row, ...], group: int) -> list[list[int]]:
    """List for each head of k and v itself and the range of rows, ordered by heads, that share it."""
    heads = [row.head // group for row in rows]
    return [[head, heads.index(head), heads.index(head) + heads.count(head), 0] for head in dict.fromkeys(heads)]
