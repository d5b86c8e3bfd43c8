"""The looks of figures: a hue for each family of methods, a shade, a marker and dashes for its variants; exact softmax is grey.

All figures of a run, and its page, give a method the same look. Any two of the first 22 methods differ in their markers, so
that they can be told apart in a grey print and by the colour-blind. Here is also how wide words are in our letters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from attnbench.report.findings import Findings
from attnbench.report.text.names import shorten

_EXACT, _BASELINE = "softmax", "softmax.sdpa"
_GREYS = ("#000000", "#7F7F7F", "#4D4D4D")
# Okabe and Ito 2008 without the yellow, which is lost on white, and five more that differ from them in lightness
_HUES = {
    "linear": "#D55E00",
    "lsh": "#0072B2",
    "sparse": "#009E73",
    "linformer": "#CC79A7",
    "vq": "#E69F00",
    "delta": "#56B4E9",
    "gated": "#882255",
    "blocks": "#999933",
    "landmark": "#6A51A3",
    "pooling": "#44AA99",
    "context": "#A6611A",
}
_DARKER, _LIGHTER = 0.35, 0.40
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_SHAPES = tuple((marker, filled) for filled in (True, False) for marker in _MARKERS)
_NUMBERS = re.compile(r"([0-9]{1,18})")
Dashes = str | tuple[int, tuple[float, ...]]
# the second and the third are matplotlib's "--" and "-.", in numbers that the page can have, too
_LINES: tuple[Dashes, ...] = ("-", (0, (3.7, 1.6)), (0, (6.4, 1.6, 1, 1.6)), (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
_DIM = 300
# greys on a clear ground
_CLEAR = {"#000000": "#777777", "#7F7F7F": "#A6A6A6", "#4D4D4D": "#8F8F8F"}

FONT = 7.0
"""Points; nothing in a figure is smaller, for a paper prints it at this size."""
SETTINGS: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "figure.titlesize", "axes.titlesize", "axes.labelsize"), FONT),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), FONT),
    "axes.linewidth": 0.6,
    "axes.titlepad": 4.0,
    "axes.labelpad": 2.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#D9D9D9",
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "lines.markeredgewidth": 0.8,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "legend.frameon": False,
    "legend.borderpad": 0.0,
    "legend.borderaxespad": 0.3,
    "legend.labelspacing": 0.25,
    "legend.handlelength": 2.6,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.2,
    # text stays text in PDF, and the same records give the same bytes in SVG
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "attnbench",
}


@dataclass(frozen=True)
class Look:
    """The look of one method."""

    color: str
    marker: str
    line: Dashes
    filled: bool

    @property
    def marked(self) -> dict[str, Any]:
        """How matplotlib draws its marker, without a line; a hollow one has the fill of the ground."""
        face = self.color if self.filled else mpl.rcParams["axes.facecolor"]
        return {"color": self.color, "marker": self.marker, "markerfacecolor": face, "linestyle": ""}

    @property
    def drawn(self) -> dict[str, Any]:
        """How matplotlib draws its line with markers."""
        return self.marked | {"linestyle": self.line}


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """Return the look of each label, whatever their order; no two are alike among the first few hundred of one hue.

    A family that does not ship with the project gets a hue that no family of these labels has.
    """
    known = list(dict.fromkeys(labels))
    families = {label: label.partition(".")[0] for label in known}
    free = [hue for family, hue in _HUES.items() if family not in families.values()] or list(_HUES.values())
    others = zip(sorted(set(families.values()) - _HUES.keys() - {_EXACT}), cycle(free))
    hues = _HUES | dict(others) | {_EXACT: _GREYS[0]}
    order = sorted(
        known,
        key=lambda label: (
            label != _BASELINE,
            families[label] != _EXACT,
            list(hues.values()).index(hues[families[label]]),
            _rising(label),
        ),
    )
    found: dict[str, Look] = {}
    ranks: dict[str, int] = {}
    for number, label in enumerate(order):
        hue = hues[families[label]]
        rank = ranks[hue] = ranks.get(hue, -1) + 1
        shades = _GREYS if families[label] == _EXACT else (hue, _mixed(hue, 0, _DARKER), _mixed(hue, 255, _LIGHTER))
        marker, filled = _SHAPES[number % len(_SHAPES)]
        found[label] = Look(shades[rank % 3], marker, _LINES[rank % 5], filled)
    return {label: found[label] for label in known}


def _rising(label: str) -> list[tuple[int, str]]:
    """Order names as people do: rounds=2 before rounds=16."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _NUMBERS.split(label)]


def _mixed(color: str, other: int, share: float) -> str:
    """Mix a colour with black (0) or white (255)."""
    parts = bytes.fromhex(color[1:])
    return f"#{bytes(round(part + (other - part) * share) for part in parts).hex().upper()}"


def run_looks(findings: Findings) -> dict[str, Look]:
    """Return the looks of the methods of a run by label, on the ground of the present figure; to be called within `applied`."""
    found = looks([*(cell.label for cell in findings.run.cells), *findings.labels])
    clear = mpl.rcParams["axes.facecolor"] == "none"
    return {label: replace(look, color=_on_clear(look.color)) if clear else look for label, look in found.items()}


def _on_clear(color: str) -> str:
    """Return a colour for a clear ground, which may be white or black: dark ones would be lost on a dark page."""
    dim = sum(bytes.fromhex(color[1:])) < _DIM
    return _CLEAR.get(color) or (_mixed(color, 255, 0.25) if dim else color)


def scaled(size: float) -> float:
    """Turn inches or points that belong to letters of 7 points into those for the letters of the present figure."""
    return size * float(mpl.rcParams["font.size"]) / FONT


def soft() -> str:
    """Return the colour of what stands back; on a clear ground only one can be read on white and on black."""
    ink = str(mpl.rcParams["text.color"])
    return "#444444" if ink == "black" else ink


def said(axes: Axes, words: str) -> None:
    """Write into the middle of a panel that has nothing else to show."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=soft())


@contextmanager
def applied(settings: Mapping[Any, Any] = SETTINGS) -> Iterator[None]:
    """Apply our settings while a figure is made and saved, whatever a user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


def width(text: str) -> float:
    """Return the inches that a text takes in the letters of the present figure; to be called within `applied`."""
    return _width(text, float(mpl.rcParams["font.size"]))


@lru_cache(maxsize=4096)
def _width(text: str, size: float) -> float:
    points, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(family="DejaVu Sans", size=size), False)
    return float(points) / 72


def fitted(text: str, inches: float) -> str:
    """Return it as it is, or with so much of its middle left out that it fits; at least one letter stays."""
    letters, cut = len(text), text
    while letters > 1 and (wide := width(cut)) > inches:
        # nearly there at once; letters are not equally wide
        letters = max(1, min(letters - 1, int(letters * inches / wide) + 1))
        cut = shorten(text, letters)
    return cut
