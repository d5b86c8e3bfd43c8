"""How figures look: one colour, marker and line per method in all of them, distinguishable in grey and by the colour-blind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib as mpl

# Okabe and Ito 2008 without the yellow, which is lost on white; neighbours differ in lightness
_COLORS = ("#000000", "#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#E69F00", "#7F7F7F")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))

FONT = 7.0
"""Points; nothing in a figure is smaller, for a paper prints it at this size."""
SETTINGS: dict[Any, Any] = {
    "font.size": FONT,
    "font.family": "DejaVu Sans",
    "axes.titlesize": FONT + 0.5,
    "axes.labelsize": FONT,
    "xtick.labelsize": FONT,
    "ytick.labelsize": FONT,
    "legend.fontsize": FONT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.color": "#D9D9D9",
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    # text stays text in PDF, and the same records give the same bytes in SVG
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "attnbench",
}


@dataclass(frozen=True)
class Look:
    """Of one method."""

    color: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]
    filled: bool

    @property
    def face(self) -> str:
        """Fill of the marker."""
        return self.color if self.filled else "white"


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """By label, in the order given; no two alike among the first few hundred."""
    return dict(zip(labels, _all_looks(), strict=False))


def _all_looks() -> Iterator[Look]:
    """Colour, marker and line step together, so that neighbours differ in all three; their periods have no common divisor."""
    for filled, number in product((True, False), range(len(_COLORS) * len(_MARKERS) * len(_LINES))):
        color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
        yield Look(color, marker, _LINES[number % len(_LINES)], filled ^ (number % 2 == 1))


@contextmanager
def applied() -> Iterator[None]:
    """Our settings while a figure is made and saved, whatever a user's matplotlibrc says; restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield
