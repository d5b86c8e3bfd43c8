"""Numbers with their ranges, as tables show them."""

from collections.abc import Sequence

from attnbench.analyze.scaling import Exponent
from attnbench.analyze.statistics import Estimate, Spread
from attnbench.schema.units import seconds, three_digits

TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTE_UNITS = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def shared_unit(values: Sequence[float], units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The largest unit in which the smallest value is at least one: a column has one unit."""
    least = min((value for value in values if value > 0), default=1.0)
    return next((unit for unit in units if least >= unit[0]), units[-1])


def margin(found: Estimate) -> str:
    """` ±3%` of an interval, ` (-2 +6%)` of a band, nothing of a single replicate."""
    below, above = (100 * (end / found.value - 1) for end in found.ends)
    if found.interval.kind is Spread.INTERVAL:
        return f" ±{_percent(max(abs(below), abs(above)))}%"
    return "" if below == above else f" (-{_percent(-below)} +{_percent(above)}%)"


def timed(time: Estimate) -> str:
    """`12.3 ms ±3%`."""
    return seconds(time.value) + margin(time)


def _percent(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{max(value, 0.0):.1f}"


def exponent(fit: Exponent | None) -> str:
    """`N^1.98`, with its interval where there is one; empty where there is no fit."""
    if fit is None:
        return ""
    interval = f" [{fit.interval.low:z.2f}, {fit.interval.high:z.2f}]" if fit.interval else ""
    return f"N^{fit.value:z.2f}{interval}"


def factor(ratio: Estimate | None) -> str:
    """`2.31× ±3%`; empty where there is none."""
    return "" if ratio is None else f"{three_digits(ratio.value)}×{margin(ratio)}"


def percent(share: float) -> str:
    """`5%`, `2.5%`: a share as people write it."""
    return f"{100 * share:.3g}%"
