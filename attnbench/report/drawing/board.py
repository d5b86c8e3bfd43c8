"""What is drawn on one figure, before anybody knows how large: panels, and where each stands if there is room for it."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from attnbench.report.drawing.legend import Entry


@dataclass(frozen=True)
class Tile:
    """One panel."""

    words: str
    row: int
    column: int
    draw: Callable[[Axes, tuple[float, float]], None]
    """Everything within the axes, which have so many inches, and labels beside them."""
    name: str
    """Of the vertical axis."""
    scale: Hashable = None
    """Neighbours of one row that have the same share its ticks; None: it has its own."""
    entries: tuple[Entry, ...] = ()
    """Of its own legend."""
    beside: float = 0.0
    """Inches, with letters of 7 points, that labels beside it take one below the other; 0 where there are none."""


@dataclass(frozen=True)
class Board:
    """All panels of a figure, however many sheets it takes."""

    title: str
    second: str
    """The line below the title."""
    tiles: tuple[Tile, ...]
    entries: tuple[Entry, ...] = ()
    """Of a legend that all panels have in common."""
    natural: tuple[float, float] = (1.80, 2.3)
    """With letters of 7 points, inches: width of a panel where the sheet does not say, and its least height."""
    named: bool = False
    """Whether vertical axes bear their names although there is a title."""

    @property
    def labelled(self) -> bool:
        """Whether there are labels beside any panel."""
        return any(tile.beside for tile in self.tiles)


@dataclass(frozen=True)
class Placed:
    """A tile where it stands."""

    tile: Tile
    row: int
    column: int
    shares: bool
    """Whether the ticks of its left neighbour are its own."""


def placed(tiles: Sequence[Tile], columns: int) -> list[Placed]:
    """In their rows and columns, if there are so many columns; else one after the other."""
    order = sorted(tiles, key=lambda tile: (tile.row, tile.column))
    fits = max(tile.column for tile in tiles) < columns
    places = [(tile.row, tile.column) if fits else divmod(i, columns) for i, tile in enumerate(order)]
    known = dict(zip(places, order, strict=True))
    return [Placed(tile, row, column, _alike(known.get((row, column - 1)), tile)) for (row, column), tile in known.items()]


def _alike(left: Tile | None, right: Tile) -> bool:
    return left is not None and left.scale is not None and left.scale == right.scale
