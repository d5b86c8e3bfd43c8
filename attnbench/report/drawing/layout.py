"""How large the panels of a figure are, and how many go on one sheet.

Constants are inches for letters of 7 points, fields those of the sheet.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from attnbench.report.drawing import legend
from attnbench.report.drawing.beside import REACH
from attnbench.report.drawing.board import Board, Placed, Tile, placed
from attnbench.report.drawing.legend import Columns, Entry
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import scaled

# left of a panel, right of it with labels beside it and without, between two that share their ticks, the name of an axis
_LEFT, _RIGHT, _BARE, _GAP, _NAME = 0.62, 1.28, 0.14, 0.12, 0.15
# titles, the head of a panel, its horizontal axis, what is left below, what is left above where there are no titles
_TITLE, _HEAD, _AXIS, _FOOT, _EDGE = 0.36, 0.22, 0.36, 0.06, 0.02
_HIGHEST = 6.0
# the least width of a panel with all that is beside it: with labels and without
_LABELLED, _PLAIN = 2.6, 2.2
# an entry of a panel's own legend where there are labels too: one below the other, as those are
_ENTRY = 3.0


@dataclass(frozen=True)
class Layout:
    """Of one board on one sheet."""

    board: Board
    sheet: Sheet

    @cached_property
    def columns(self) -> int:
        """As many as the board wants, as far as there is room."""
        wanted = 1 + max(tile.column for tile in self.board.tiles)
        room = self.sheet.room
        return wanted if room is None else min(wanted, max(1, int(room / (_LABELLED if self.board.labelled else _PLAIN))))

    @cached_property
    def places(self) -> list[Placed]:
        """All tiles."""
        return placed(self.board.tiles, self.columns)

    @property
    def named(self) -> bool:
        """Whether vertical axes bear their names: where no title says them."""
        return self.board.named or not self.sheet.titled

    @property
    def left(self) -> float:
        """Left of the first panel."""
        return scaled(_LEFT + _NAME * self.named)

    @cached_property
    def inner(self) -> float:
        """Left of the panels that have a neighbour."""
        return scaled(_GAP) if all(p.shares for p in self.places if p.column) else self.left

    @property
    def right(self) -> float:
        """Right of each panel."""
        return scaled(_RIGHT if self.board.labelled else _BARE)

    @property
    def panel_width(self) -> float:
        """What is left of the sheet."""
        if self.sheet.width is None:
            return scaled(self.board.natural[0])
        around = self.left + (self.columns - 1) * self.inner + self.columns * self.right
        return (self.sheet.width - around) / self.columns

    @property
    def width(self) -> float:
        """Of the figure."""
        return self.sheet.width or self.left + (self.columns - 1) * self.inner + self.columns * (self.panel_width + self.right)

    @cached_property
    def own_columns(self) -> Columns:
        """Of the panels' own legends."""
        every = [entry for tile in self.board.tiles for entry in self.entries(tile)]
        return Columns.of(every, self.panel_width + self.right, _ENTRY if self.board.labelled else 0.0)

    @cached_property
    def common_columns(self) -> Columns:
        """Of the legend of all panels."""
        return Columns.of(self.board.entries, self.width - scaled(0.1))

    def legend(self, row: int) -> float:
        """Height of the legends of one row."""
        return legend.height(max(len(self.entries(place.tile)) for place in self.places if place.row == row), self.own_columns)

    def entries(self, tile: Tile) -> tuple[Entry, ...]:
        """Of its own legend; a sheet may do without where there are labels beside the lines."""
        return tile.entries if self.sheet.legend or not tile.beside else ()

    @cached_property
    def below(self) -> float:
        """Height of the legend of all panels."""
        count = len(self.board.entries)
        return legend.height(count, self.common_columns) + scaled(_FOOT) if count else 0.0

    @property
    def above(self) -> float:
        """Height of the titles."""
        return scaled(_TITLE if self.sheet.titled else _EDGE)

    @property
    def head(self) -> float:
        """Height of a panel's title."""
        return scaled(_HEAD)

    @property
    def axis(self) -> float:
        """Height of a panel's horizontal axis with its ticks and its name."""
        return scaled(_AXIS)

    def _around(self, row: int) -> float:
        """Of a row, what is no panel."""
        return self.head + self.axis + self.legend(row) + scaled(_FOOT)

    @cached_property
    def panel_height(self) -> float:
        """High enough for all labels beside a panel, up to a limit."""
        rest = self.above + self.below + max(map(self._around, range(self._last + 1)))
        if self.sheet.height is not None:
            return self.sheet.height - rest
        least = scaled(self.board.natural[1])
        labels = scaled(max(tile.beside for tile in self.board.tiles)) / REACH
        high = min(max(least, labels), scaled(_HIGHEST))
        limit = math.inf if self.sheet.tallest is None else self.sheet.tallest - rest
        return max(least, min(high, limit))

    @property
    def _last(self) -> int:
        return max(place.row for place in self.places)

    def rows(self, rows: range) -> float:
        """Height of some rows of panels with all that is above and below them."""
        return sum(self._around(row) + self.panel_height for row in rows)

    @cached_property
    def sheets(self) -> list[range]:
        """The rows of each."""
        most = math.inf if self.sheet.tallest is None else self.sheet.tallest - self.above - self.below
        found, first = list[range](), 0
        for row in range(1, self._last + 1):
            if self.sheet.height is not None or self.rows(range(first, row + 1)) > most:
                found.append(range(first, row))
                first = row
        return [*found, range(first, self._last + 1)]

    def height(self, rows: range) -> float:
        """Of a figure of these rows."""
        return self.sheet.height or self.above + self.rows(rows) + self.below
