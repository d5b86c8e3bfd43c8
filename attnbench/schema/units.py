"""Seconds, bytes and counts as people read them. Data is stored in seconds and bytes; only this file knows prefixes."""

import math
from collections.abc import Sequence
from decimal import Decimal

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def three_digits(value: float) -> str:
    """Write three significant digits, never in exponent form: 1230, 12.3, 0.123."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{Decimal(f'{value:#.3g}'):f}".rstrip(".")


def seconds(value: float) -> str:
    """Write a time such as 12.3 ms."""
    return _with_unit(value, SECONDS)


def bytes_(value: float) -> str:
    """Write a size such as 64.0 MiB, in binary prefixes, as allocators count."""
    return _with_unit(value, BYTES)


def _with_unit(value: float, units: Sequence[tuple[float, str]]) -> str:
    scale, unit = step_of(value, units)
    return f"{three_digits(value / scale)} {unit}"


def step_of(value: float, steps: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the largest step that a value reaches, else the smallest; 1e-3 / 1e-3 must not come out below one."""
    return next((step for step in steps if abs(value) >= step[0] * (1 - 1e-9)), steps[-1])


def counted(number: int, noun: str) -> str:
    """Write `1 run` or `1,200 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def length(value: int) -> str:
    """Write a length, shortened where it is a multiple of 1024: 512, 64k."""
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)
