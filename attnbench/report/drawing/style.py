"""How figures look: one colour, marker and line per method in all of them, distinguishable in grey and by the colour-blind.

A look is the method's own, in whatever figure it stands: a digest of its label (sha256) names a colour, a marker and a line.
Where more methods of one figure want the same than is their share, those with parameters, and then those with the larger
digests, get what is used least: first the marker, so that no two markers are alike as long as there are enough, then the line.
The order of the methods is of no account. Families have no hue in common: methods that can be told apart are worth more. Black
and grey are the exact softmax's.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import matplotlib as mpl

from attnbench.report.drawing import fonts

_T = TypeVar("_T")
_Dashes = str | tuple[int, tuple[int, ...]]

# of the first 1,500 numbers the one with which the methods of the shipped suites change their looks least from one to another,
# and softmax.sdpa is a solid line
_SALT = "419"
_EXACT = "softmax."
_EXACT_COLORS = ("#000000", "#7F7F7F")
# Okabe and Ito 2008 without the yellow, which is lost on white; neighbours differ in lightness
_COLORS = ("#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#E69F00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_SHAPES = tuple(product(_MARKERS, (True, False)))
_LINES: tuple[_Dashes, ...] = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
# on a clear ground, which may be white or black behind
_CLEAR = {"#000000": "#777777", "#7F7F7F": "#A6A6A6"}

FONT = 7.0
"""Points; nothing in a figure is smaller, for a paper prints it at this size."""
SETTINGS: dict[Any, Any] = {
    "font.size": FONT,
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
    # as they are by default; larger letters want larger ones
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "xtick.major.pad": 3.5,
    "ytick.major.pad": 3.5,
    "lines.markeredgewidth": 1.0,
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
    line: _Dashes
    filled: bool

    @property
    def face(self) -> str:
        """Fill of the marker: the ground's, where it is hollow."""
        return self.color if self.filled else str(mpl.rcParams["axes.facecolor"])


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """By label; the same for a label in every set in which nobody contests it, no two alike among the first few hundred."""
    known = list(dict.fromkeys(labels))
    # a name alone is what most figures show: a variant gives way to it
    order = sorted(known, key=lambda label: ("(" in label, _digest(label)))
    exact, others = ([label for label in order if label.startswith(_EXACT) is whether] for whether in (True, False))
    family = {label: label.partition(".")[0] for label in order}
    colors = _dealt(exact, _EXACT_COLORS, [family], 0) | _dealt(others, _COLORS, [family], 0)
    shapes = _dealt(order, _SHAPES, [colors, family], 1)
    lines = _dealt(order, _LINES, [{label: (colors[label], shapes[label]) for label in order}], 2)
    return {label: Look(colors[label], shapes[label][0], lines[label], shapes[label][1]) for label in known}


def _digest(label: str) -> bytes:
    return hashlib.sha256((_SALT + label).encode("utf-8", "surrogatepass")).digest()


def _wish(label: str, count: int, channel: int) -> int:
    return int.from_bytes(_digest(label)[4 * channel : 4 * channel + 4], "big") % count


def _dealt(
    labels: Sequence[str], options: Sequence[_T], groupings: Sequence[Mapping[str, Hashable]], channel: int
) -> dict[str, _T]:
    """To each label the option that it wishes, as long as neither that option at all nor a group of its has its share of it.

    Then to each that is left the option that its groups, and then everybody, have least; the nearest after its wish.
    """
    count, dealt = len(options), _Dealt(len(options), labels, groupings)
    left = [label for label in labels if not dealt.takes(label, _wish(label, count, channel))]
    for label in left:
        first = _wish(label, count, channel)
        nearest = sorted(range(count), key=lambda i: (i - first) % count)
        dealt.give(label, min(nearest, key=lambda i: dealt.uses(label, i)))
    return {label: options[i] for label, i in dealt.found.items()}


class _Dealt:
    """What was dealt so far."""

    def __init__(self, count: int, labels: Sequence[str], groupings: Sequence[Mapping[str, Hashable]]) -> None:
        self.found: dict[str, int] = {}
        # the last group is that of everybody
        self._groups = {label: [(i, each[label]) for i, each in enumerate(groupings)] + [(-1, None)] for label in labels}
        sizes = Counter(group for groups in self._groups.values() for group in groups)
        self._shares = {group: math.ceil(size / count) for group, size in sizes.items()}
        self._used: Counter[Hashable] = Counter()

    def uses(self, label: str, option: int) -> list[int]:
        """How often, within each of its groups."""
        return [self._used[group, option] for group in self._groups[label]]

    def takes(self, label: str, option: int) -> bool:
        """Whether there was enough of it left, and the label has it now."""
        if any(self._used[group, option] >= self._shares[group] for group in self._groups[label]):
            return False
        self.give(label, option)
        return True

    def give(self, label: str, option: int) -> None:
        """Whether there is enough or not."""
        self.found[label] = option
        self._used.update((group, option) for group in self._groups[label])


def on_this_ground(found: Mapping[str, Look]) -> dict[str, Look]:
    """The same looks within `applied`: where the ground is clear, black would be lost on a dark page."""
    clear = mpl.rcParams["axes.facecolor"] == "none"
    return {label: replace(look, color=_CLEAR.get(look.color, look.color)) if clear else look for label, look in found.items()}


def scaled(size: float) -> float:
    """Inches or points that belong to letters of 7 points, for the letters of the present figure."""
    return size * float(mpl.rcParams["font.size"]) / FONT


def ink() -> str:
    """Colour of lines that are no method's."""
    return str(mpl.rcParams["text.color"])


def soft() -> str:
    """Colour of what stands back; on a clear ground only one can be read on white and on black."""
    return "#444444" if ink() == "black" else ink()


@contextmanager
def applied(settings: Mapping[Any, Any] = SETTINGS) -> Iterator[None]:
    """Our settings while a figure is made and saved, whatever a user's matplotlibrc says; restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        mpl.rcParams["font.family"] = list(fonts.families())
        yield
