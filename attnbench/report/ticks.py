"""Where the ticks of logarithmic axes stand, and what they say: times in SI steps, bytes in powers of two, lengths as 16k."""

import math
from collections.abc import Sequence

from attnbench.report.numbers import BYTE_UNITS, TIME_UNITS
from attnbench.schema.units import length

Ticks = list[tuple[float, str]]
_FEWEST, _MOST = 3, 7


def time_ticks(low: float, high: float) -> Ticks:
    """Powers of ten between two times in seconds; 1, 2 and 5 of each where there are fewer than three."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leads in ((1,), (1, 2, 5)):
        values = [float(f"{lead}e{decade}") for decade in decades for lead in leads]
        inside = [value for value in values if low <= value <= high]
        if len(inside) >= _FEWEST:
            break
    step = math.ceil(len(inside) / _MOST)
    return [(value, _said(value, TIME_UNITS)) for value in inside[::step]]


def byte_ticks(low: float, high: float) -> Ticks:
    """Powers of two between two numbers of bytes, at most seven."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / _MOST))
    chosen = [exponent for exponent in range(first, last + 1) if exponent % step == 0]
    return [(2.0**exponent, _said(2.0**exponent, BYTE_UNITS)) for exponent in chosen]


def length_ticks(lengths: Sequence[int], per_doubling: float, space: float) -> Ticks:
    """All lengths whose labels have room: `per_doubling` inches between N and 2 N, `space` inches for a label."""
    chosen: list[int] = []
    for N in sorted(lengths):
        if not chosen or math.log2(N / chosen[-1]) * per_doubling >= space:
            chosen.append(N)
    return [(float(N), length(N)) for N in chosen]


def _said(value: float, units: tuple[tuple[float, str], ...]) -> str:
    # 1e-3 / 1e-3 must not come out below one
    scale, unit = next((unit for unit in units if value >= unit[0] * (1 - 1e-9)), units[-1])
    return f"{value / scale:g} {unit}"
