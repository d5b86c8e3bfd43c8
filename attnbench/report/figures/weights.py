"""Pictures of attention weights: queries down, keys across, a panel for each kind of head, after Child et al. 2019, Figure 3.

H heads, N tokens.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from attnbench.analyze.sections import grouped
from attnbench.report.drawing import style
from attnbench.report.drawing.images import DPI, images
from attnbench.report.text.names import drawable

_LEAST_PIXELS, _WIDEST = 300, 10.5
# inches: left of the panels, between them, right of the last; above a panel, below it, a line of text
_LEFT, _GAP, _RIGHT = 0.52, 0.22, 0.80
_HEAD, _AXIS, _LINE, _TITLE_LINE = 0.30, 0.32, 0.125, 0.16
# letters in an inch
_LETTERS, _TITLE_LETTERS = 19, 14.5
_FAINTEST = 0.01
_LATER = "#E4E4E4"
_NORMALISED = 1e-2

Weights = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Picture:
    """The weights [H, N, N] that are drawn, and the two lines above them."""

    title: str
    about: str
    weights: Weights
    causal: bool

    @property
    def signed(self) -> bool:
        """Whether some weight is negative."""
        return bool((self.weights < 0).any())


def image(picture: Picture, form: str) -> bytes:
    """Return the picture as png or svg; the same picture gives the same bytes."""
    with style.applied():
        return images(figure(picture), (form,))[form]


def figure(picture: Picture) -> Figure:
    """Draw the picture; to be called within `style.applied()`."""
    groups = grouped(((weights != 0).tobytes(), head) for head, weights in enumerate(picture.weights))
    # heads that see the same pairs share a panel, which shows their mean; the last shows the mean of all
    every = list(range(len(picture.weights)))
    panels = [(f"head{'s' if len(heads) > 1 else ''} {', '.join(map(str, heads))}", heads) for heads in groups.values()]
    panels = [*(panels if len(groups) > 1 else []), ("all heads" if len(every) > 1 else "the head", every)]
    # a panel is a whole number of pixels for each token
    N = picture.weights.shape[-1]
    side = N * -(-_LEAST_PIXELS // N) / DPI
    across = min(len(panels), max(1, int((_WIDEST - _LEFT - _RIGHT + _GAP) / (side + _GAP))))
    right, row_height = _LEFT + across * (side + _GAP) - _GAP, _HEAD + side + _AXIS
    # room for the title of a single panel
    width = max(3.4, right + _RIGHT)
    title = textwrap.wrap(drawable(picture.title), int(width * _TITLE_LETTERS))
    about = textwrap.wrap(drawable(picture.about), int(width * _LETTERS))
    notes = textwrap.wrap(drawable(" ".join(_notes(picture, alike=len(groups) == 1))), int(width * _LETTERS))
    above = 0.10 + len(title) * _TITLE_LINE + len(about) * _LINE
    below = 0.12 + len(notes) * _LINE
    drawn = Figure(figsize=(_pixels(width), _pixels(above + -(-len(panels) // across) * row_height + below)))
    _write(drawn, title, about, notes)
    top = drawn.get_figheight()
    for number, (name, heads) in enumerate(panels):
        row, column = divmod(number, across)
        bottom = top - above - row * row_height - _HEAD - side
        axes = _axes(drawn, (_LEFT + column * (side + _GAP), bottom, side, side))
        shown = _draw(axes, name, picture.weights[heads], picture)
        # the frame is beside the outermost tokens, not over them
        axes.spines[:].set_visible(False)
        out = 0.6 / 72 / side
        place: Any = {"transform": axes.transAxes, "clip_on": False}
        axes.add_patch(Rectangle((-out, -out), 1 + 2 * out, 1 + 2 * out, fill=False, linewidth=0.5, **place))
        axes.tick_params(labelleft=column == 0)
        if column == 0:
            axes.set_ylabel("query i", labelpad=1)
        if number == 0:
            _legend(drawn, shown, (right + 0.12, bottom, 0.09, side), signed=picture.signed)
    return drawn


def _write(drawn: Figure, title: Sequence[str], about: Sequence[str], notes: Sequence[str]) -> None:
    """Write the title and what it is about at the top, and the notes at the foot."""
    width, height = drawn.get_size_inches()
    bold: Any = {"fontsize": style.FONT + 1, "fontweight": "bold"}
    grey: Any = {"color": "#444444"}
    lines = [(height - 0.06 - number * _TITLE_LINE, line, bold) for number, line in enumerate(title)]
    lines += [(height - 0.06 - len(title) * _TITLE_LINE - number * _LINE, line, grey) for number, line in enumerate(about)]
    lines += [(0.07 + (len(notes) - number) * _LINE, line, grey) for number, line in enumerate(notes)]
    for inches, line, look in lines:
        drawn.text(0.08 / width, inches / height, line, ha="left", va="top", parse_math=False, **look)


def _axes(drawn: Figure, inches: tuple[float, float, float, float]) -> Axes:
    width, height = drawn.get_size_inches()
    # so that every token is as wide as every other
    left, bottom, across, up = map(_pixels, inches)
    return drawn.add_axes((left / width, bottom / height, across / width, up / height))


def _pixels(inches: float) -> float:
    """Return the nearest whole number of pixels, in inches."""
    return round(inches * DPI) / DPI


def _draw(axes: Axes, name: str, weights: Weights, picture: Picture) -> Any:  # noqa: ANN401 - matplotlib's image
    """Draw the mean of some heads, [heads, N, N], each row over its largest weight; what is exactly zero stays white."""
    N, pairs, mean = weights.shape[-1], int((weights != 0).any(0).sum()), weights.mean(0)
    if picture.causal:
        later = np.ma.masked_less(np.triu(np.ones((N, N)), 1), 1)
        axes.imshow(later, cmap=ListedColormap([_LATER]), interpolation="none")
    largest = np.abs(mean).max(axis=-1, keepdims=True)
    shares: Any = np.ma.masked_equal(np.divide(mean, largest, out=np.zeros_like(mean), where=largest > 0), 0)
    # even the faintest weight is darker than paper
    if picture.signed:
        shades, scale = colormaps["RdBu"](np.r_[np.linspace(0, 0.42, 128), np.linspace(0.58, 1, 128)]), Normalize(-1, 1)
    else:
        shades, scale = colormaps["viridis_r"](np.linspace(0.08, 1, 256)), LogNorm(_FAINTEST, 1, clip=True)
    shown = axes.imshow(shares, cmap=ListedColormap(shades), norm=scale, interpolation="none")
    ticks = range(0, N, max(1, round(N / 4)))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(pad=1.5, length=2)
    axes.set_xlabel("key j", labelpad=1)
    most = N * (N + 1) // 2 if picture.causal else N * N
    title = f"{name}\n{pairs:,} pair{'s' if pairs != 1 else ''}, {100 * pairs / most:.3g}%"
    axes.set_title(title, loc="left", pad=3, fontsize=style.FONT, linespacing=1.1)
    return shown


def _legend(drawn: Figure, shown: Any, inches: tuple[float, float, float, float], *, signed: bool) -> None:  # noqa: ANN401
    axes = _axes(drawn, inches)
    bar = drawn.colorbar(shown, cax=axes)
    ticks = [-1.0, -0.5, 0.0, 0.5, 1.0] if signed else [0.01, 0.03, 0.1, 0.3, 1.0]
    bar.set_ticks(ticks)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{'≤' if value == _FAINTEST else ''}{value:g}"))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.tick_params(pad=1.5, length=2)
    bar.set_label("weight / largest of its row", labelpad=2)
    bar.outline.set_linewidth(0.5)


def _notes(picture: Picture, *, alike: bool) -> Iterator[str]:
    """Say what the colours do not; `alike`: whether all heads see the same pairs."""
    later = ", grey: later than the query" if picture.causal else ""
    yield f"White: no weight at all{later}."
    if len(picture.weights) > 1:
        apart = "All heads: their mean, and the pairs that any of them sees."
        yield "All heads see the same keys: their mean is shown." if alike else apart
    sums = picture.weights.sum(-1)
    blind = (picture.weights == 0).all(-1)
    if picture.signed:
        yield "Some weights are negative: red."
    if (np.abs(sums - 1) > _NORMALISED)[~blind].any():
        yield f"Rows are not normalised: they sum to {sums[~blind].min():.3g} to {sums[~blind].max():.3g}."
    if blind.any():
        yield f"{int(blind.sum()):,} of {blind.size:,} queries (of all heads) see no key."
