"""One panel of learning curves: for each method the median of its seeds, and their range."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D

from attnbench.analyze.learning_curve import Moment
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.style import Look, scaled, soft
from attnbench.report.questions.learning.curves.scale import Height, Way

_MARKED = 6
"""Markers on a line, about."""


@dataclass(frozen=True)
class Learner:
    """One method: its curve, and how it looks."""

    look: Look
    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class Panel:
    """Everything within the axes."""

    learners: tuple[Learner, ...]
    way: Way
    timed: bool
    """Whether the way is that of time."""
    height: Height
    chance: float | None

    def draw(self, axes: Axes, inches: tuple[float, float]) -> None:
        """Of axes of this width and height."""
        self.way.apply(axes, inches[0])
        self.height.apply(axes)
        axes.grid(visible=True)
        axes.set_axisbelow(True)
        if self.chance is not None:
            axes.axhline(self.chance, linestyle=":", color=soft(), linewidth=scaled(0.9), zorder=1.5)
        _bands(axes, [(each.look.color, self._band(each)) for each in self.learners])
        for number, each in enumerate(self.learners):
            _line(axes, each.look, self._across(each), [m.middle for m in each.moments], number)
        if not self.learners:
            panel.said(axes, "nothing was measured")

    def _across(self, each: Learner) -> list[float]:
        return [(m.seconds if self.timed else m.update) / self.way.unit for m in each.moments]

    def _band(self, each: Learner) -> list[tuple[float, float]]:
        across = self._across(each)
        low = list(zip(across, (m.low for m in each.moments), strict=True))
        high = list(zip(across, (m.high for m in each.moments), strict=True))
        return [*low, *reversed(high)]


def _bands(axes: Axes, bands: Sequence[tuple[str, list[tuple[float, float]]]]) -> None:
    corners, colors = [each for _, each in bands], [color for color, _ in bands]
    axes.add_collection(PolyCollection(corners, facecolors=colors, alpha=0.2, linewidth=0, zorder=2), autolim=False)


def _line(axes: Axes, look: Look, x: Sequence[float], y: Sequence[float], number: int) -> None:
    """Markers of different methods stand at different moments, for curves often lie upon each other."""
    line = panel.sample(look, x, y, zorder=3 + 0.01 * number)
    step = max(1, len(x) // _MARKED)
    line.set(markevery=(number % step, step), linewidth=scaled(0.9), markersize=scaled(2.8))
    axes.add_artist(line)


def dotted(x: Sequence[float], y: Sequence[float]) -> Line2D:
    """Of a legend: the level of chance."""
    return Line2D(list(x), list(y), linestyle=":", color=soft(), linewidth=scaled(0.9), marker="")


def crossed(color: str, x: Sequence[float], y: Sequence[float]) -> Line2D:
    """Of a legend: a method that failed."""
    return Line2D(list(x), list(y), linestyle="", color=color, marker="x", markersize=scaled(4.0), markeredgewidth=scaled(1.2))
