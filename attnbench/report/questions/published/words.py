"""A figure of ours, its bounds, and what may be held against what, in words."""

import math
from collections.abc import Callable

from attnbench.analyze.published import Finding, Row
from attnbench.analyze.published_figure import Figure, Kind
from attnbench.analyze.published_metrics import BATCH, LONGEST, OVER_LENGTHS
from attnbench.report.text.names import one_line
from attnbench.schema.published import Comparable
from attnbench.schema.units import bytes_, seconds, three_digits

NOTHING = "–"
"""Where there is no figure of ours."""
_COMPARABLE = {
    Comparable.RATIO: "yes, as a ratio",
    Comparable.QUALITY: "yes, as quality",
    Comparable.HARDWARE: "no, other hardware",
    Comparable.CLAIM: "yes, as a claim",
}
_MOST_DECIMALS = 6
_Form = Callable[[float], str]


def comparable(row: Row) -> str:
    """What of the printed figure may be held against ours."""
    return _COMPARABLE[row.entry.written.comparable]


def place(row: Row) -> str:
    """`Figure 2: linear reaches softmax's loss`."""
    return one_line(f"{row.entry.written.where}: {row.entry.what}")


def verdict(row: Row) -> str:
    """`reproduced (upper bound 0.05)`, `not run`, or nothing where no bounds were set."""
    band = row.entry.band
    return f"{row.finding} ({bounds(*band)})" if band is not None and row.finding is not Finding.NOT_RUN else row.finding.value


def bounds(least: float, most: float) -> str:
    """`upper bound 0.05`, `lower bound 3`, `0.95 to 1.05`."""
    if math.isinf(least):
        return f"upper bound {most:g}"
    return f"lower bound {least:g}" if math.isinf(most) else f"{least:g} to {most:g}"


def ours(figure: Figure | None) -> str:
    """`2.38× [2.30×, 2.46×]`, `+0.003 [−0.010, 0.016] nats`, `N^1.98 [1.91, 2.05] (N = 512 to 8192)`; a dash for none."""
    if figure is None:
        return NOTHING
    return f"{value(figure)} ({figure.about})" if figure.about and figure.metric in OVER_LENGTHS else value(figure)


def value(figure: Figure) -> str:
    """The same without what else must be said of it."""
    match figure.kind, figure.metric:
        case Kind.RATIO, _:
            return _ranged(figure, lambda value: f"{three_digits(value)}×")
        case Kind.DIFFERENCE, _:
            return _with_unit(figure, f"{_sign(figure.value)}{_ranged(figure, _decimal(figure))}")
        case _, "growth" | "memory_growth":
            return f"N^{_ranged(figure, _decimal(figure))}"
        case _, "time":
            return _ranged(figure, seconds)
        case _, "memory":
            return _ranged(figure, bytes_)
    form = _count if figure.metric in {BATCH, LONGEST} else three_digits
    return _with_unit(figure, _ranged(figure, form))


def _ranged(figure: Figure, form: _Form) -> str:
    if figure.interval is None:
        return form(figure.value)
    return f"{form(figure.value)} [{form(figure.interval.low)}, {form(figure.interval.high)}]"


def _with_unit(figure: Figure, text: str) -> str:
    return f"{text} {figure.unit}".rstrip()


def _sign(value: float) -> str:
    """Of what is no loss: a difference has a sign always."""
    return "+" if value > 0 else ""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _decimal(figure: Figure) -> _Form:
    """To the second digit of the interval's half width; without an interval, or of one without width, to three digits."""
    width = figure.interval.high - figure.interval.low if figure.interval else 0.0
    if width <= 0:
        return lambda value: _minus(three_digits(value))
    decimals = min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(width / 2))))
    return lambda value: _minus(f"{value:z.{decimals}f}")


def _minus(text: str) -> str:
    """A true minus, which no line is broken at."""
    return text.replace("-", "−")
