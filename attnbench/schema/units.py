"""Seconds, bytes and counts as people read them. Data holds SI numbers; only this file knows prefixes."""

import math
from decimal import Decimal

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def three_digits(value: float) -> str:
    """Three significant digits, never in exponent form: 1230, 12.3, 0.123."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{Decimal(f'{value:#.3g}'):f}".rstrip(".")


def seconds(value: float) -> str:
    """12.3 ms."""
    scale, unit = next(((s, u) for s, u in _TIME if abs(value) >= s), _TIME[-1])
    return f"{three_digits(value / scale)} {unit}"


def bytes_(value: float) -> str:
    """64.0 MiB: binary prefixes, as allocators count."""
    scale, unit = next(((s, u) for s, u in _BYTES if abs(value) >= s), _BYTES[-1])
    return f"{three_digits(value / scale)} {unit}"


def length(value: int) -> str:
    """2^9 as 512, 2^16 as 64k: multiples of 1024 are shortened."""
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)
