"""Legends: samples of lines with words beside them, in columns; drawn in a fraction of the time that matplotlib's take.

Sizes in inches for letters of 7 points, places in inches from the figure's lower left corner.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnbench.report.drawing.beside import LINE
from attnbench.report.drawing.style import scaled
from attnbench.report.drawing.words import fitted, width

Entry = tuple[Callable[[Sequence[float], Sequence[float]], Line2D], str]
"""A line through given points, and words of letters that the font of figures has."""
GID = "legend"
"""Of its words, so that they can be told from others."""
_SAMPLE, _GAP, _BETWEEN = 0.25, 0.06, 0.1


@dataclass(frozen=True)
class Columns:
    """So many side by side, of one width."""

    count: int
    width: float

    @classmethod
    def of(cls, entries: Sequence[Entry], room: float, least: float = 0.0) -> "Columns":
        """As many as have room, each as wide as the widest entry, and at least `least`."""
        widest = max((width(words) for _, words in entries), default=0.0)
        count = max(1, int(room / max(scaled(least), scaled(_SAMPLE + _GAP + _BETWEEN) + widest)))
        return cls(count, room / count)


def height(entries: int, columns: Columns) -> float:
    """Of a legend."""
    return _rows(entries, columns) * scaled(_ROW)


_ROW = LINE * 1.06


def _rows(entries: int, columns: Columns) -> int:
    return math.ceil(entries / columns.count)


def draw(owner: Axes | Figure, entries: Sequence[Entry], corner: tuple[float, float], columns: Columns) -> None:
    """From its upper left corner, down each column; what is too long is cut in its middle."""
    figure = owner.get_figure(root=True)
    assert figure is not None
    inches = figure.dpi_scale_trans
    rows, row = _rows(len(entries), columns), scaled(_ROW)
    for number, (sample, words) in enumerate(entries):
        column, down = divmod(number, rows)
        left, y = corner[0] + column * columns.width, corner[1] - (down + 0.5) * row
        x = [left + scaled(_SAMPLE) * share for share in (0.0, 0.5, 1.0)]
        line = sample(x, [y] * 3)
        line.set(markevery=[1], transform=inches, clip_on=False)
        owner.add_artist(line)
        start = left + scaled(_SAMPLE + _GAP)
        text = fitted(words, corner[0] + (column + 1) * columns.width - start)
        owner.text(start, y, text, transform=inches, va="center_baseline", parse_math=False, gid=GID)
