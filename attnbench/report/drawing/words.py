"""How wide words are in a figure, and words cut to a width; to be called within `style.applied`."""

from functools import lru_cache

import matplotlib as mpl
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from attnbench.report.drawing.fonts import families
from attnbench.report.text.names import shorten


def width(text: str) -> float:
    """Inches, in the present letters."""
    return _width(text, families(), float(mpl.rcParams["font.size"]))


@lru_cache(maxsize=4096)
def _width(text: str, names: tuple[str, ...], size: float) -> float:
    points, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(family=list(names), size=size), False)
    return float(points) / 72


def fitted(text: str, inches: float) -> str:
    """As it is, or with so much of its middle left out that it fits; at least one letter stays."""
    letters, cut = len(text), text
    while letters > 1 and (wide := width(cut)) > inches:
        # nearly there at once; letters are not equally wide
        letters = max(1, min(letters - 1, int(letters * inches / wide) + 1))
        cut = shorten(text, letters)
    return cut
