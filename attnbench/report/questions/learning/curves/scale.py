"""The axes of learning curves: what they span, whether they are logarithmic, and where their ticks stand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attnbench.analyze.learning_curve import Moment
from attnbench.report.drawing.style import scaled
from attnbench.report.drawing.ticks import Ticks, factor_ticks
from attnbench.schema.outcome import CURVE_ACCURACY

_FAR = 20.0
"""From this ratio of the highest to the lowest on, equal steps would press what is low into one line."""
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_AT_LEAST = 3.0
"""Units of time that the longest training takes, so that ticks are small whole numbers."""
# inches for letters of 7 points
_BETWEEN = 0.42


@dataclass(frozen=True)
class Height:
    """Of a vertical axis."""

    low: float
    high: float
    log: bool
    percent: bool = False

    @classmethod
    def of(cls, name: str, curves: Iterable[Sequence[Moment]], level: float | None) -> "Height":
        """Around all curves and the level of chance, where there is one; a share is between 0 and 1."""
        if name == CURVE_ACCURACY:
            return cls(-0.03, 1.03, log=False, percent=True)
        moments = [moment for curve in curves for moment in curve]
        held = [] if level is None else [level]
        low, high = min([*held, *(m.low for m in moments)], default=0.0), max([*held, *(m.high for m in moments)], default=1.0)
        if low > 0 and high / low > _FAR:
            return cls(low / 1.3, high * 1.3, log=True)
        room = 0.06 * (high - low) or 0.1
        return cls(low - room, high + room, log=False)

    @property
    def ticks(self) -> Ticks:
        """A handful."""
        if self.log:
            return factor_ticks(self.low, self.high)
        values = [float(value) for value in MaxNLocator(5).tick_values(self.low, self.high) if self.low <= value <= self.high]
        return [(value, f"{100 * value:.0f}%" if self.percent else f"{value:.6g}") for value in values]

    def apply(self, axes: Axes) -> None:
        """To axes that are new."""
        if self.log:
            axes.set_yscale("log")
        axes.set_ylim(self.low, self.high)
        axes.set_yticks([value for value, _ in self.ticks], [words for _, words in self.ticks])
        axes.minorticks_off()


@dataclass(frozen=True)
class Way:
    """A horizontal axis: updates, or the time that they took."""

    name: str
    unit: float
    """Updates or seconds that one unit has."""
    longest: float
    """In these units."""

    @classmethod
    def of_updates(cls, curves: Iterable[Sequence[Moment]]) -> "Way":
        """To the last update of all curves."""
        return cls("updates", 1.0, max((m.update for curve in curves for m in curve), default=1.0) or 1.0)

    @classmethod
    def of_time(cls, curves: Iterable[Sequence[Moment]]) -> "Way":
        """To the last second of all curves, in seconds, minutes or hours."""
        longest = max((m.seconds for curve in curves for m in curve), default=1.0) or 1.0
        unit, name = next((each for each in _UNITS if longest >= _AT_LEAST * each[0]), _UNITS[-1])
        return cls(f"{name} of training", unit, longest / unit)

    def apply(self, axes: Axes, inches: float) -> None:
        """To axes of this width."""
        axes.set_xlim(-0.02 * self.longest, 1.02 * self.longest)
        found = MaxNLocator(max(2, min(6, int(inches / scaled(_BETWEEN))))).tick_values(0.0, self.longest)
        values = [float(value) for value in found if 0 <= value <= 1.02 * self.longest]
        # 10,000 but 0.5
        words = [f"{value:,.0f}" if value == round(value) else f"{value:g}" for value in values]
        axes.set_xticks(values, words)
        axes.set_xlabel(self.name, labelpad=scaled(1))
