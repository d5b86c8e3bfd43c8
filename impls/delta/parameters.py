"""The check of the delta family's scale; the length of a chunk is checked in recurrence/parts.py."""

import math


def refuse_bad_scale(scale: float) -> None:
    """Raise ValueError unless scale is a finite number."""
    if isinstance(scale, bool | str) or not math.isfinite(scale):
        raise ValueError(f"scale={scale!r}: the output is multiplied by it and it must be a finite number")
