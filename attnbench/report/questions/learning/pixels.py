"""The images of one method as one picture: what was given, what was completed, what was drawn, below each other."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnbench.analyze.cells import CellSummary
from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN

STRIPS = (GIVEN, COMPLETED, DRAWN)
MOST = 8
"""Images of each kind that are shown."""
_COLOURS = 3
_Pixels = NDArray[np.float64]


@dataclass(frozen=True)
class Mosaic:
    """Red, green, blue and opacity by row and column; between images the ground shows."""

    pixels: _Pixels
    tops: dict[str, int]
    """First row of each strip."""
    rows: int
    """Of one image."""
    lefts: tuple[int, ...]
    """First column of each image."""
    columns: int

    @property
    def middles(self) -> dict[str, float]:
        """Of each strip, in the coordinates of pixels, whose centres are whole."""
        return {name: top + (self.rows - 1) / 2 for name, top in self.tops.items()}

    @property
    def given_ends(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Of each completed image, the line below the half that was given."""
        y = self.tops[COMPLETED] + self.rows // 2 - 0.5
        return [((left - 0.5, y), (left + self.columns - 0.5, y)) for left in self.lefts]


def mosaic(summary: CellSummary) -> Mosaic | None:
    """Of the first seed; None unless the cell is ok and its record holds whole images of all three kinds."""
    shape = [summary.facts.get(name) for name in ("image_rows", "image_columns", "levels")]
    if not summary.ok or not all(isinstance(size, int) and size > 0 for size in shape):
        return None
    rows, columns, levels = (int(size) for size in shape if size is not None)
    strips = {name: _images(summary, name, rows, columns) for name in STRIPS}
    count = min(MOST, *(len(images) for images in strips.values()))
    if count == 0:
        return None
    return _laid({name: images[:count] / max(1, levels - 1) for name, images in strips.items()})


def _images(summary: CellSummary, name: str, rows: int, columns: int) -> _Pixels:
    """[images, rows, columns, 3], or none where the pixels make no whole images; three columns for one are its colours."""
    seeds = summary.series.get(name, {})
    values = np.array(seeds[min(seeds)] if seeds else (), dtype=np.float64)
    if len(values) % (rows * columns):
        return np.zeros((0, rows, columns, _COLOURS))
    if columns == _COLOURS * rows:
        return values.reshape(-1, rows, rows, _COLOURS)
    return np.repeat(values.reshape(-1, rows, columns, 1), _COLOURS, axis=3)


def _laid(strips: dict[str, _Pixels]) -> Mosaic:
    count, rows, columns, _ = next(iter(strips.values())).shape
    gap = max(1, rows // 8)
    lefts = tuple(i * (columns + gap) for i in range(count))
    tops = {name: i * (rows + gap) for i, name in enumerate(strips)}
    pixels = np.zeros((len(strips) * (rows + gap) - gap, count * (columns + gap) - gap, _COLOURS + 1))
    for name, images in strips.items():
        for left, image in zip(lefts, images, strict=True):
            place = pixels[tops[name] : tops[name] + rows, left : left + columns]
            place[..., :_COLOURS], place[..., _COLOURS] = np.clip(image, 0.0, 1.0), 1.0
    return Mosaic(pixels, tops, rows, lefts, columns)
