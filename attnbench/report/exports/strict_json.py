"""JSON that every reader accepts: ASCII, no NaN and no infinities."""

import json
import math
from collections.abc import Mapping


def encode(data: object, indent: int | None = 1) -> bytes:
    """With a line break at the end. A setting that is no finite number becomes a word: `inf`."""
    separators = (",", ":") if indent is None else None
    return (json.dumps(_finite(data), indent=indent, separators=separators, allow_nan=False) + "\n").encode("ascii")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value
