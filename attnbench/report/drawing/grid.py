"""A board drawn: its panels in rows and columns, titles above, legends below, a figure for each sheet."""

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from attnbench.report.drawing import legend, style
from attnbench.report.drawing.board import Board, Placed
from attnbench.report.drawing.layout import Layout
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import scaled
from attnbench.report.drawing.words import fitted
from attnbench.report.text.names import drawable

# inches for letters of 7 points: how far left of a panel its legend begins, and where it has a neighbour
_OUTER, _INNER = 0.45, 0.27


def figures(board: Board, sheet: Sheet) -> list[Figure]:
    """One a sheet; to be called within `style.applied(sheet.settings)`."""
    layout = Layout(board, sheet)
    count = len(layout.sheets)
    words = [f" ({number} of {count})" if count > 1 else "" for number in range(1, count + 1)]
    return [_figure(layout, rows, which) for rows, which in zip(layout.sheets, words, strict=True)]


def _figure(layout: Layout, rows: range, which: str) -> Figure:
    picture = Figure(figsize=(layout.width, layout.height(rows)))
    if layout.sheet.titled:
        _titles(picture, layout.board, which)
    for place in layout.places:
        if place.row in rows:
            _panel(picture, layout, place, layout.rows(range(rows.start, place.row)))
    legend.draw(picture, layout.board.entries, (scaled(0.05), layout.below), layout.common_columns)
    return picture


def _titles(picture: Figure, board: Board, which: str) -> None:
    width, height = picture.get_size_inches()
    top = 1 - scaled(0.04) / height
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    # bold, and larger
    title = fitted(drawable(board.title + which), 0.78 * width)
    picture.text(0.01, top, title, fontsize=scaled(style.FONT + 1), fontweight="bold", **place)
    second = fitted(drawable(board.second), 0.97 * width)
    picture.text(0.01, top - scaled(0.15) / height, second, color=style.soft(), **place)


def _panel(picture: Figure, layout: Layout, place: Placed, above: float) -> None:
    """Below rows of this height."""
    w, h = picture.get_size_inches()
    left = layout.left + place.column * (layout.panel_width + layout.right + layout.inner)
    bottom = h - layout.above - above - layout.head - layout.panel_height
    size = (layout.panel_width, layout.panel_height)
    axes = picture.add_axes((left / w, bottom / h, size[0] / w, size[1] / h))
    tile = place.tile
    tile.draw(axes, size)
    # its letters are a little larger
    head = fitted(drawable(tile.words), (size[0] + layout.right) * 0.93)
    axes.set_title(head, loc="left", pad=scaled(4), parse_math=False)
    if place.shares:
        axes.tick_params(labelleft=False)
    elif layout.named:
        axes.set_ylabel(fitted(drawable(tile.name), size[1]), labelpad=scaled(2), parse_math=False)
    offset = scaled(_INNER if place.column else _OUTER)
    columns = replace(layout.own_columns, width=layout.own_columns.width + offset / layout.own_columns.count)
    legend.draw(axes, layout.entries(tile), (left - offset, bottom - layout.axis), columns)
