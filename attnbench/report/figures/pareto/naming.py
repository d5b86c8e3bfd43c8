"""Names beside points of a scatter, where there is room for them: none overlaps with another, a point, a line, or the edge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in inches."""


@dataclass(frozen=True)
class Named:
    """A point within the panel, inches from its lower left corner, and the width of its name."""

    x: float
    y: float
    width: float


def names_placed(
    points: Sequence[Named], size: tuple[float, float], line: float, reach: float, lines: Sequence[Box] = ()
) -> list[tuple[float, float] | None]:
    """Lower left corners of the names, in the order given, which is that of importance; None where there is no room.

    `line` is the height of a name and `reach` half the size of a marker, both in inches; `lines` are kept free too.
    """
    taken: list[Box] = [_around(point, reach) for point in points]
    found: list[tuple[float, float] | None] = []
    for number, point in enumerate(points):
        others = [*taken[:number], *taken[number + 1 :], *lines]
        box = next((box for box in _boxes(point, line, reach) if _inside(box, size) and _free(box, others)), None)
        found.append(None if box is None else box[:2])
        taken += [] if box is None else [box]
    return found


def _around(point: Named, reach: float) -> Box:
    return point.x - reach, point.y - reach, point.x + reach, point.y + reach


def _boxes(point: Named, line: float, reach: float) -> Iterator[Box]:
    """Right of the point, left, above and below, then the corners."""
    w, gap = point.width, 1.3 * reach
    right, left, middle = point.x + gap, point.x - gap - w, point.x - w / 2
    above, below, level = point.y + gap, point.y - gap - line, point.y - line / 2
    places = ((right, level), (left, level), (middle, above), (middle, below))
    corners = ((right, above), (right, below), (left, above), (left, below))
    for x, y in (*places, *corners):
        yield x, y, x + w, y + line


def _inside(box: Box, size: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]


def _free(box: Box, others: Sequence[Box]) -> bool:
    return all(box[2] <= o[0] or o[2] <= box[0] or box[3] <= o[1] or o[3] <= box[1] for o in others)
