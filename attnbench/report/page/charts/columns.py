"""A quantity over all cells of a board: values, ends, what is drawn for cells that failed, and how it grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.report.drawing.lines.quantity import Point, beyond
from attnbench.report.page.board import Board
from attnbench.report.page.charts.quantities import Quantity, quantities
from attnbench.report.text.numbers import exponent


@dataclass(frozen=True)
class Column:
    """One quantity, cell by cell in the board's order."""

    board: Board
    quantity: Quantity

    @cached_property
    def points(self) -> tuple[Point | None, ...]:
        """None of a cell without a figure."""
        return tuple(self.quantity.read(self.board.runs[place.run], place.summary) for place in self.board.places)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """As tables show it; empty of a cell without a figure."""
        return tuple(
            self.quantity.text(self.board.runs[place.run], place.summary) if point else ""
            for place, point in zip(self.board.places, self.points, strict=True)
        )

    @cached_property
    def beyond(self) -> dict[int, float]:
        """By cell: where the line of a method that failed there would go on; absent where there is no line."""
        found: dict[int, float] = {}
        for numbers in series(self.board).values():
            # on logarithmic axes, where 0 has no place
            points = [point for n in numbers if (point := self.points[n]) and point.value > 0]
            failed = [n for n in numbers if not self.board.places[n].summary.ok] if points else []
            for n in failed:
                value = beyond(points, self.board.places[n].summary.cell.problem.N)
                found |= {n: value} if value is not None else {}
        return found

    @cached_property
    def fits(self) -> dict[tuple[int, int, int], str]:
        """By group, run and method: `N^1.98 [1.95, 2.01]`; absent where nothing is fitted."""
        found = {}
        for key, numbers in series(self.board).items():
            if text := exponent(self.quantity.fit([self.board.places[n].summary for n in numbers])):
                found[key] = text
        return found


def columns(board: Board) -> list[Column]:
    """All quantities that some cell has."""
    return [Column(board, quantity) for quantity in quantities(board.runs)]


def series(board: Board) -> dict[tuple[int, int, int], list[int]]:
    """By group, run and method: the numbers of its cells, by rising length."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for number, place in enumerate(board.places):
        found.setdefault((place.group, place.run, place.method), []).append(number)
    return found


def column(found: Sequence[Column], key: str) -> Column | None:
    """That of one quantity."""
    return next((each for each in found if each.quantity.key == key), None)
