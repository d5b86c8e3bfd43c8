"""The ticks of logarithmic axes, and what they say: times in SI steps, bytes in powers of two, lengths as 16k."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attnbench.analyze.quantities import Unit
from attnbench.report.drawing.style import scaled
from attnbench.report.text.numbers import SCALES
from attnbench.schema.units import length, step_of

Ticks = list[tuple[float, str]]
_FEWEST, _MOST = 3, 7
_SPANS = 4.0
"""The least ratio of the ends of a logarithmic axis."""
_AROUND_ONE = (0.8, 0.9, 1.0, 1.1, 1.25)
_THOUSANDS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_RATES = {Unit.FLOP_RATE, Unit.BYTE_RATE, Unit.TOKENS, Unit.SEQUENCES}
_LETTER = 0.06
"""Inches for letters of 7 points."""


def ticks(unit: Unit, low: float, high: float) -> Ticks:
    """Return the ticks of an axis of this unit between two values.

    Times and energies are marked at powers of ten, or at 1, 2 and 5 of each; bytes at powers of two; all else at plain numbers.
    """
    if unit is Unit.BYTES:
        return [(value, _said(value, SCALES[unit])) for value in _powers_of_two(low, high)]
    if unit in {Unit.SECONDS, Unit.JOULES}:
        inside = _inside(_decades(low, high, (1,)), low, high)
        if len(inside) < _FEWEST:
            inside = _inside(_decades(low, high, (1, 2, 5)), low, high)
        chosen = inside[:: math.ceil(len(inside) / _MOST)] if len(inside) > 1 else _plain(low, high)
        return [(value, _said(value, SCALES[unit])) for value in chosen]
    if unit in _RATES:
        return [(value, _said(value, _THOUSANDS).strip()) for value in _plain(low, high)]
    if unit is Unit.SHARE:
        return [(value / 100, f"{value:g}%") for value in _plain(100 * low, 100 * high)]
    return [(value, f"{value:g}") for value in _plain(low, high)]


def _powers_of_two(low: float, high: float) -> list[float]:
    """Return at most seven powers of two between two numbers of bytes; of fewer than two plain numbers of one unit."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / _MOST))
    chosen = [exponent for exponent in range(first, last + 1) if exponent % step == 0]
    if len(chosen) > 1:
        return [2.0**exponent for exponent in chosen]
    unit, _ = step_of(low, SCALES[Unit.BYTES])
    return [value * unit for value in _plain(low / unit, high / unit)]


def wide(axes: Axes) -> float:
    """Return the width of axes in inches, about: before they are laid out."""
    return float(axes.get_position().width * axes.get_figure(root=True).get_figwidth())  # type: ignore[union-attr]


def number_up(axes: Axes, unit: Unit, *, empty: bool) -> None:
    """Make the vertical axis logarithmic, at least so wide that it can be read, with ticks of its unit unless it is empty."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    more = max(1.0, _SPANS * low / high) ** 0.5
    axes.set_ylim(low / more, high * more)
    _numbered(axes, "y", [] if empty else ticks(unit, low / more, high * more))


def number_across(axes: Axes, unit: Unit, low: float, high: float, title: str) -> None:
    """Make the horizontal axis logarithmic between two ends, with those ticks of its unit that have room beside each other."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel(title, parse_math=False)
    chosen: Ticks = []
    end = -math.inf
    for value, words in ticks(unit, low, high):
        middle, half = math.log(value / low) / math.log(high / low) * wide(axes), len(words) * scaled(_LETTER) / 2
        if middle - half >= end:
            chosen.append((value, words))
            end = middle + half + scaled(_LETTER)
    _numbered(axes, "x", chosen)


def lengths_across(axes: Axes, lengths: Sequence[int]) -> None:
    """Make the horizontal axis that of all these rising lengths, with ticks at those that have room for their labels."""
    first, last = lengths[0], lengths[-1]
    room = 2.0 if first == last else 1.2
    axes.set_xscale("log", base=2)
    axes.set_xlim(first / room, last * room)
    per_doubling = wide(axes) / math.log2(last * room * room / first)
    chosen: list[int] = []
    for N in lengths:
        if not chosen or math.log2(N / chosen[-1]) * per_doubling >= scaled(0.24):
            chosen.append(N)
    _numbered(axes, "x", [(float(N), length(N)) for N in chosen])
    axes.set_xlabel("N (tokens)")


def _numbered(axes: Axes, which: str, chosen: Ticks) -> None:
    (axes.set_xticks if which == "x" else axes.set_yticks)([value for value, _ in chosen], [words for _, words in chosen])
    axes.minorticks_off()


def _plain(low: float, high: float) -> list[float]:
    """Return the first of four scales that has three ticks inside; else the one that has the most."""
    scales = (*(_decades(low, high, leads) for leads in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))), _AROUND_ONE)
    inside = [_inside(values, low, high) for values in scales]
    chosen = next((values for values in inside if len(values) >= _FEWEST), max(inside, key=len))
    if len(chosen) < 2:
        chosen = _inside(map(float, MaxNLocator(4).tick_values(low, high)), low, high)
    return chosen[:: math.ceil(len(chosen) / _MOST) or 1]


def _inside(values: Iterable[float], low: float, high: float) -> list[float]:
    return [value for value in values if low <= value <= high]


def _decades(low: float, high: float, leads: Sequence[float]) -> list[float]:
    """Return these multiples of all powers of ten around a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{lead}e{power}") for power in powers for lead in leads]


def _said(value: float, units: tuple[tuple[float, str], ...]) -> str:
    scale, unit = step_of(value, units)
    return f"{value / scale:g} {unit}"
