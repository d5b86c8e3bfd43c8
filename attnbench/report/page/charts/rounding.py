"""Numbers as the page takes them: finer than any screen, and none that JSON has no word for."""

import math
from collections.abc import Iterable


def all_rounded(values: Iterable[float | None]) -> list[float | None]:
    """Of a column."""
    return [rounded(value) for value in values]


def rounded(value: float | None) -> float | None:
    """Six digits; None of what is no finite number."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
