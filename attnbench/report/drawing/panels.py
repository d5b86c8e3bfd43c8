"""The panels of a figure: in rows and columns, with titles above and one legend below; matplotlib lays them out.

Sizes are inches for letters of 7 points.
"""

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnbench.analyze.quantities import Unit
from attnbench.analyze.sections import grouped
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import FONT, fitted, scaled
from attnbench.report.drawing.style import width as wide
from attnbench.report.drawing.ticks import number_up
from attnbench.report.text.names import drawable

_LINE = 1.25 * FONT / 72
_SAMPLE = 0.45
"""What an entry of the legend takes beside its words."""
_NARROWEST = 2.2
"""The least width of a panel with what is left of it, where several are side by side."""
_AROUND, _TITLES = 0.60, 0.36
"""What a panel needs above and below it, and a figure for its titles."""
_FIRST = "\u200b"
"""matplotlib hides what begins with an underscore; a space of no width before it shows it."""


@dataclass(frozen=True)
class Panel:
    """One panel.

    `draw` fills its axes, gives every line that belongs into the legend a label by `named`, and returns the points that notes
    above the axes take.
    """

    head: str
    draw: Callable[[Axes], float | None]
    row: int
    column: int
    up: str = ""
    """The name of the vertical axis."""
    unit: Unit | None = None
    """The unit of the vertical axis, where it is logarithmic; None where `draw` numbers it."""
    scale: Hashable = None
    """Panels of one scale have the same limits, and neighbours of a row share their numbers; None: it has its own."""
    names: tuple[str, ...] = ()
    """What it adds to the legend."""


def named(name: str) -> str:
    """Return a name as matplotlib is to be given the label of a line."""
    return _FIRST + name


def columns_of(sheet: Sheet, wanted: int) -> int:
    """Return how many panels stand side by side where so many would."""
    return wanted if sheet.width is None else min(wanted, max(1, int(sheet.width / scaled(_NARROWEST))))


def figures(
    panels: Sequence[Panel], sheet: Sheet, title: str, second: str, size: tuple[float, float] = (3.3, 2.1)
) -> list[Figure]:
    """Draw all panels, on as many sheets as they need; to be called within `style.applied(sheet.settings)`.

    `second` is the line below the title; `size` is that of a panel where the sheet does not say.
    """
    placed = sorted(panels, key=lambda panel: (panel.row, panel.column))
    wanted = max(panel.column for panel in panels) + 1
    columns = columns_of(sheet, wanted)
    if columns < wanted:
        # where there is no room for so many columns panels stand one after the other
        placed = [replace(panel, row=i // columns, column=i % columns) for i, panel in enumerate(placed)]
    width = sheet.width or scaled(size[0]) * columns
    # a height that was asked for may press panels together, but not to nothing
    limit, pressed = sheet.height or sheet.tallest or math.inf, 0.75 if sheet.height else 1.0
    firsts, last = [0], max(panel.row for panel in placed) + 1
    for row in range(1, last):
        own = [panel for panel in placed if firsts[-1] <= panel.row <= row]
        if pressed * _height(own, sheet, width, size[1]) > limit:
            firsts.append(row)
    cuts = [range(first, end) for first, end in pairwise([*firsts, last])]
    sheets, drawn = list[Figure](), list[tuple[Panel, Axes]]()
    for number, rows in enumerate(cuts, 1):
        own = [replace(panel, row=panel.row - rows.start) for panel in placed if panel.row in rows]
        high = sheet.height or min(_height(own, sheet, width, size[1]), sheet.tallest or math.inf)
        figure = Figure(figsize=(width, high), layout="constrained")
        pads = {"w_pad": scaled(0.03), "h_pad": scaled(0.03), "wspace": 0.02, "hspace": 0.02}
        figure.get_layout_engine().set(**pads)  # type: ignore[union-attr]
        sheets.append(figure)
        drawn += _drawn(figure, own, columns, size[1])
        if sheet.titled:
            which = f" ({number} of {len(cuts)})" if len(cuts) > 1 else ""
            words = "\n".join(fitted(drawable(line), 0.97 * width) for line in (title + which, second) if line)
            figure.suptitle(words, x=0.01, ha="left", parse_math=False)
        _legend(figure, width)
    _share(drawn)
    return sheets


def _height(own: Sequence[Panel], sheet: Sheet, width: float, high: float) -> float:
    """Return the height of a figure of these panels, each so high."""
    names = {name for panel in own for name in panel.names}
    lines = math.ceil(len(names) / _legend_columns(names, width))
    rows = len({panel.row for panel in own})
    return scaled(_TITLES * sheet.titled + rows * (high + _AROUND) + lines * _LINE + 0.1)


def _drawn(figure: Figure, own: Sequence[Panel], across: int, high: float) -> list[tuple[Panel, Axes]]:
    """Draw panels into a figure, each so high; a neighbour of the same scale has no numbers of its own."""
    found: dict[tuple[int, int], tuple[Panel, Axes]] = {}
    notes: dict[int, float] = {}
    grid = figure.add_gridspec(max(panel.row for panel in own) + 1, across)
    for panel in own:
        axes = figure.add_subplot(grid[panel.row, panel.column])
        axes.minorticks_off()
        axes.grid(visible=True)
        if panel.unit is not None:
            axes.set_yscale("log")
        notes[panel.row] = max(notes.get(panel.row, 0.0), panel.draw(axes) or 0.0)
        neighbour, _ = found.get((panel.row, panel.column - 1), (None, None))
        if neighbour is not None and panel.scale is not None and neighbour.scale == panel.scale:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel(fitted(drawable(panel.up), scaled(high + 0.2)), parse_math=False)
        found[panel.row, panel.column] = panel, axes
    room = figure.get_figwidth() / across - scaled(0.1)
    for panel, axes in found.values():
        # heads of one row are on one line
        pad = scaled(4.0) + notes[panel.row]
        axes.set_title(fitted(drawable(panel.head), room), loc="left", pad=pad, parse_math=False)
    return list(found.values())


def _share(drawn: Sequence[tuple[Panel, Axes]]) -> None:
    """Give panels of one scale the limits of those that have numbers, and number their axes."""
    groups = grouped((id(axes) if panel.scale is None else panel.scale, (panel, axes)) for panel, axes in drawn)
    for members in groups.values():
        # a line without points, which is there for the legend, has no limits
        limits = [axes.get_ylim() for _, axes in members if all(map(math.isfinite, axes.dataLim.intervaly))]
        for panel, axes in members:
            if limits:
                axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
            if panel.unit is not None:
                number_up(axes, panel.unit, empty=not limits)


def _legend(figure: Figure, width: float) -> None:
    """Put every name once below all panels."""
    found: dict[str, Line2D] = {}
    for axes in figure.axes:
        found |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True) if label not in found}
    if not found:
        return
    words = [_FIRST + fitted(label.removeprefix(_FIRST), width - scaled(_SAMPLE + 0.1)) for label in found]
    box = figure.legend(list(found.values()), words, loc="outside lower left", ncols=_legend_columns(found, width))
    for text in box.get_texts():
        text.set_parse_math(False)
        # who copies or searches for a name in the PDF means it without
        text.set_text(text.get_text().removeprefix(_FIRST))


def _legend_columns(names: Collection[str], width: float) -> int:
    widest = max((wide(name.removeprefix(_FIRST)) for name in names), default=0.0)
    return max(1, int((width - scaled(0.1)) / (scaled(_SAMPLE + 0.1) + widest)))
