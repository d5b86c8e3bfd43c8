"""Labels beside a panel, moved apart, each joined to its line by a thin one; sizes in inches for letters of 7 points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from attnbench.report.drawing.apart import spread_apart
from attnbench.report.drawing.style import FONT, ink, scaled
from attnbench.report.drawing.words import fitted

LINE = FONT * 1.2 / 72
"""Height of one line of text."""
_GAP, _WIDTH = 0.09, 1.16
"""From the panel to a label, and what a label may take."""
_BELOW = 0.12
"""Of the panel's height: how far labels may go below it; above is its title."""
REACH = 1 + _BELOW
"""Heights of the panel that its labels may take."""
# what is left free at the ends of a leader: beside the label, at the mark; points
_FROM, _TO = 3.0, 3.0


@dataclass(frozen=True)
class Label:
    """One or several lines of text, and what they belong to, as shares of the panel's width and height."""

    text: str
    color: str
    x: float
    y: float

    @property
    def height(self) -> float:
        """What it takes."""
        return needed(self.text)


def needed(text: str) -> float:
    """Height of a label."""
    return (text.count("\n") + 1.25) * LINE


def write(axes: Axes, labels: Sequence[Label], inches: tuple[float, float]) -> None:
    """Beside axes of this width and height."""
    width, height = inches
    places = spread_apart([label.y for label in labels], [scaled(label.height) / height for label in labels], -_BELOW, 1.0)
    left = 1 + scaled(_GAP) / width
    for label, place in zip(labels, places, strict=True):
        axes.annotate(
            "\n".join(fitted(line, scaled(_WIDTH)) for line in label.text.split("\n")),
            (left, place),
            xycoords="axes fraction",
            va="center",
            color="#222222" if ink() == "black" else ink(),
            linespacing=1.05,
            parse_math=False,
            annotation_clip=False,
        )
    _lead(axes, labels, [(left, place) for place in places], inches)


def _lead(axes: Axes, labels: Sequence[Label], starts: Sequence[tuple[float, float]], inches: tuple[float, float]) -> None:
    """Lines from all labels; as one collection, which is drawn many times faster than arrows."""
    found = [(_leader((label.x, label.y), start, inches), label.color) for label, start in zip(labels, starts, strict=True)]
    axes.add_collection(
        LineCollection(
            [ends for ends, _ in found if ends],
            colors=[color for ends, color in found if ends],
            linewidths=scaled(0.6),
            alpha=0.8,
            transform=axes.transAxes,
            clip_on=False,
            zorder=3,
        ),
        autolim=False,
    )


def _leader(end: tuple[float, float], start: tuple[float, float], inches: tuple[float, float]) -> list[tuple[float, float]]:
    """Both ends of what is left of the way after the gaps; empty where nothing is."""
    across, up = ((b - a) * size for a, b, size in zip(start, end, inches, strict=True))
    length = math.hypot(across, up)
    first, last = scaled(_FROM) / 72, length - scaled(_TO) / 72
    if last <= first:
        return []
    return [(start[0] + across * way / length / inches[0], start[1] + up * way / length / inches[1]) for way in (first, last)]
