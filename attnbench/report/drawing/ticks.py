"""Where the ticks of logarithmic axes stand, and what they say: times in SI steps, bytes in powers of two, lengths as 16k."""

import math
from collections.abc import Sequence

from attnbench.report.text.numbers import BYTE_UNITS, TIME_UNITS
from attnbench.schema.units import length

Ticks = list[tuple[float, str]]
_FEWEST, _MOST = 3, 7
_AROUND_ONE = (0.8, 0.9, 1.0, 1.1, 1.25)
_THOUSANDS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def time_ticks(low: float, high: float) -> Ticks:
    """Powers of ten between two times in seconds; 1, 2 and 5 of each where there are fewer than three."""
    for leads in ((1,), (1, 2, 5)):
        inside = [value for value in _decades(low, high, leads) if low <= value <= high]
        if len(inside) >= _FEWEST:
            break
    step = math.ceil(len(inside) / _MOST)
    return [(value, _said(value, TIME_UNITS)) for value in inside[::step]]


def factor_ticks(low: float, high: float) -> Ticks:
    """Of plain numbers: powers of ten; or with 2 and 5 of each; closer ones where there are fewer than three."""
    return [(value, f"{value:g}") for value in _plain(low, high)]


def rate_ticks(low: float, high: float) -> Ticks:
    """The same, with a letter for thousands: 10 G, 1 T."""
    return [(value, _said(value, _THOUSANDS).strip()) for value in _plain(low, high)]


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


def spaced(ticks: Ticks, low: float, high: float, width: float, letter: float) -> Ticks:
    """Those whose words have room beside each other, on a logarithmic axis of so many inches with letters so wide."""
    chosen: Ticks = []
    end = -math.inf
    for value, words in ticks:
        middle, half = math.log(value / low) / math.log(high / low) * width, len(words) * letter / 2
        if middle - half >= end:
            chosen.append((value, words))
            end = middle + half + letter
    return chosen


def _plain(low: float, high: float) -> list[float]:
    """The first of four scales that has three ticks inside; else the one that has the most."""
    scales = (*(_decades(low, high, leads) for leads in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))), _AROUND_ONE)
    inside = [[value for value in values if low <= value <= high] for values in scales]
    chosen = next((values for values in inside if len(values) >= _FEWEST), max(inside, key=len))
    return chosen[:: math.ceil(len(chosen) / _MOST) or 1]


def _decades(low: float, high: float, leads: Sequence[float]) -> list[float]:
    """These multiples of all powers of ten around a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{lead}e{power}") for power in powers for lead in leads]


def _said(value: float, units: tuple[tuple[float, str], ...]) -> str:
    # 1e-3 / 1e-3 must not come out below one
    scale, unit = next((unit for unit in units if value >= unit[0] * (1 - 1e-9)), units[-1])
    return f"{value / scale:g} {unit}"
