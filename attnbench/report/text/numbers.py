"""Numbers with their units and ranges, as tables, axes and sentences show them."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import ENERGY, MEMORY, TIME, Center, Quantity, Unit
from attnbench.analyze.scaling import Exponent
from attnbench.analyze.statistics import Estimate, Spread
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.units import BYTES, SECONDS, step_of, three_digits

SCALES: dict[Unit, tuple[tuple[float, str], ...]] = {
    Unit.SECONDS: SECONDS,
    Unit.BYTES: BYTES,
    Unit.JOULES: ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")),
    Unit.SHARE: ((0.01, "%"),),
    Unit.TOKENS: ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    Unit.SEQUENCES: ((1e6, "M"), (1e3, "k"), (1.0, "")),
    Unit.FLOP_RATE: ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
    Unit.BYTE_RATE: ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")),
    Unit.NATS: ((1.0, "nats"),),
    Unit.BITS: ((1.0, "bits"),),
    Unit.FACTOR: ((1.0, "×"),),
    Unit.PLAIN: ((1.0, ""),),
}
"""By unit, the steps in which people read it, the largest first."""
_POWERS = 1e-4
"""Scores below are errors of rounding, and are written by powers of ten: no row of zeros has to be counted."""


def per(workload: Workload) -> str:
    """Say what times, energies and bytes are divided by: a sample of the batch, which in decoding is a token or a sequence."""
    if workload in {Workload.DECODE, Workload.MODEL_DECODE}:
        return "per token"
    whole = {Workload.DECODE_TOTAL, Workload.TRAIN, Workload.GENERATE, Workload.MODEL_PREFILL, Workload.MODEL_TRAIN}
    return "per sequence" if workload in whole else "per sample"


def heading(quantity: Quantity, workload: Workload) -> str:
    """Name a figure with what it is divided by and the counter that is read: `memory per sample (host_rss_peak)`."""
    divided = f" {per(workload)}" if quantity.name in {TIME, ENERGY, MEMORY} else ""
    return f"{quantity.title}{divided}{f' ({quantity.about})' if quantity.about and quantity.name == MEMORY else ''}"


def shared_scale(values: Sequence[float], unit: Unit) -> tuple[float, str]:
    """Return the largest step in which the smallest value is at least one: a column has one unit."""
    least = min((abs(value) for value in values if value), default=1.0)
    return step_of(least, SCALES[unit])


def written(value: float, unit: Unit) -> str:
    """Write one number: `12.3 ms`, `64.0 MiB`, `63.1%`, `1.23e-07`."""
    scale, sign = step_of(value, SCALES[unit])
    # some signs stand beside their number without a space
    return f"{_digits(value / scale)}{sign if sign in {'%', '×', ''} else f' {sign}'}"


def scaled(quantity: Quantity, found: Estimate, scale: float) -> str:
    """Write a number in a column's unit with its range: `12.3 ±3%`, `63.1 [62.8, 63.5]`, `4096`."""
    text = _digits(found.value / scale)
    if quantity.unit is Unit.BYTES and 1000 <= found.value / scale < 10_000:
        # three digits, but 4096 and not 4100: bytes often come in powers of two
        text = f"{found.value / scale:.0f}"
    return text + _range(quantity, found, scale)


def shown(quantity: Quantity, found: Estimate | None) -> str:
    """Write a number with its unit and its range: `12.3 ms ±3%`, `63.1% [62.8, 63.5]`; empty where there is none."""
    if found is None:
        return ""
    return written(found.value, quantity.unit) + _range(quantity, found, step_of(found.value, SCALES[quantity.unit])[0])


def figure_of(quantity: Quantity, cell: CellSummary | None) -> str:
    """Write a cell's figure; the status of a cell that failed, n/a where it was not read, nothing where no cell was planned."""
    if cell is None:
        return ""
    return shown(quantity, quantity.estimate(cell)) or "n/a" if cell.ok else short(cell.status)


def _range(quantity: Quantity, found: Estimate, scale: float) -> str:
    """Write a range: the ends of sums in brackets, in the unit of the number; the margin of factors in per cent."""
    if quantity.center is not Center.SUMS:
        return margin(found) if quantity.is_replicated else ""
    low, high = (_digits(end / scale) for end in found.ends)
    # where all is exact but for rounding, a range says nothing
    says_something = quantity.is_rounding or abs(found.value) >= _POWERS or found.value == 0
    return f" [{low}, {high}]" if says_something and low != high else ""


def _digits(value: float) -> str:
    return f"{value:.1e}" if 0 < abs(value) < _POWERS else three_digits(value)


def margin(found: Estimate) -> str:
    """Write ` ±3%` for an interval, ` (-2 +6%)` for a band, nothing for a single replicate."""
    below, above = (end / found.value - 1 for end in found.ends)
    if found.interval.kind is Spread.INTERVAL:
        return f" ±{in_percent(max(abs(below), abs(above)))}%"
    return "" if below == above else f" (-{in_percent(-below)} +{in_percent(above)}%)"


def in_percent(share: float) -> str:
    """Write a share in per cent without the sign: `0.4`, `9.9`, `12`, `100`."""
    value = 100 * share
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:z.1f}"


def exponent_text(fit: Exponent | None) -> str:
    """Write `N^1.98`, with its interval where there is one; nothing where there is no fit."""
    if fit is None:
        return ""
    interval = f" [{fit.interval.low:z.2f}, {fit.interval.high:z.2f}]" if fit.interval else ""
    return f"N^{fit.value:z.2f}{interval}"


def factor(ratio: Estimate | None) -> str:
    """Write `2.31× ±3%`; nothing where there is none."""
    return "" if ratio is None else f"{three_digits(ratio.value)}×{margin(ratio)}"


def percent(share: float) -> str:
    """Write a share as people do: `5%`, `2.5%`."""
    return f"{100 * share:.3g}%"
