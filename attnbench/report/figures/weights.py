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
from matplotlib.colors import Colormap, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from attnbench.report.drawing import style
from attnbench.report.drawing.images import DPI, images
from attnbench.report.text.names import drawable

FORMATS = ("png", "svg")
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
    """What is drawn, weights [H, N, N], and the two lines above it."""

    title: str
    about: str
    weights: Weights
    causal: bool

    @property
    def signed(self) -> bool:
        """Whether some weight is negative."""
        return bool((self.weights < 0).any())


@dataclass(frozen=True)
class _Panel:
    title: str
    weights: Weights
    """[N, N]"""


def image(picture: Picture, form: str) -> bytes:
    """As png or svg; the same picture gives the same bytes."""
    with style.applied():
        return images(figure(picture), (form,))[form]


def figure(picture: Picture) -> Figure:
    """To be called within `style.applied()`."""
    panels = list(_panels(picture))
    sheet = _Sheet.of(len(panels), picture.weights.shape[-1])
    words = _Words.of(picture, sheet.width)
    drawn = Figure(figsize=(_pixels(sheet.width), _pixels(words.above + sheet.down * sheet.row + words.below)))
    _write(drawn, words)
    for number, panel in enumerate(panels):
        row, column = divmod(number, sheet.across)
        bottom = drawn.get_figheight() - words.above - row * sheet.row - _HEAD - sheet.side
        axes = _axes(drawn, (_LEFT + column * (sheet.side + _GAP), bottom, sheet.side, sheet.side))
        shown = _draw(axes, panel, picture)
        _frame(axes, sheet.side, named=column == 0)
        if number == 0:
            _legend(drawn, shown, (sheet.right + 0.12, bottom, 0.09, sheet.side), signed=picture.signed)
    return drawn


def _panels(picture: Picture) -> Iterator[_Panel]:
    """Heads that see the same pairs share a panel, which shows their mean; the last shows the mean of all."""
    groups: dict[bytes, list[int]] = {}
    for head, weights in enumerate(picture.weights):
        groups.setdefault((weights != 0).tobytes(), []).append(head)
    if len(groups) > 1:
        yield from (_panel(picture, _heads(heads), heads) for heads in groups.values())
    heads = list(range(len(picture.weights)))
    yield _panel(picture, "all heads" if len(heads) > 1 else "the head", heads)


def _panel(picture: Picture, name: str, heads: Sequence[int]) -> _Panel:
    weights: Weights = picture.weights[list(heads)]
    N, pairs = weights.shape[-1], int((weights != 0).any(0).sum())
    most = N * (N + 1) // 2 if picture.causal else N * N
    return _Panel(f"{name}\n{pairs:,} pair{'s' if pairs != 1 else ''}, {100 * pairs / most:.3g}%", weights.mean(0))


def _heads(heads: Sequence[int]) -> str:
    """`head 2`, or `heads 0, 2`."""
    return f"head{'s' if len(heads) > 1 else ''} {', '.join(map(str, heads))}"


@dataclass(frozen=True)
class _Sheet:
    """Sizes in inches; a panel is a whole number of pixels for each token."""

    side: float
    across: int
    down: int

    @classmethod
    def of(cls, panels: int, N: int) -> "_Sheet":
        side = N * -(-_LEAST_PIXELS // N) / DPI
        across = min(panels, max(1, int((_WIDEST - _LEFT - _RIGHT + _GAP) / (side + _GAP))))
        return cls(side, across, -(-panels // across))

    @property
    def right(self) -> float:
        """Where the last panel ends."""
        return _LEFT + self.across * (self.side + _GAP) - _GAP

    @property
    def width(self) -> float:
        # room for the title of a single panel
        return max(3.4, self.right + _RIGHT)

    @property
    def row(self) -> float:
        return _HEAD + self.side + _AXIS


@dataclass(frozen=True)
class _Words:
    """Title and what follows it, above the panels; notes below them: lines that fit."""

    title: Sequence[str]
    about: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(cls, picture: Picture, width: float) -> "_Words":
        texts = (picture.title, picture.about, " ".join(_notes(picture)))
        letters = (_TITLE_LETTERS, _LETTERS, _LETTERS)
        return cls(*(textwrap.wrap(drawable(text), int(width * each)) for text, each in zip(texts, letters, strict=True)))

    @property
    def above(self) -> float:
        return 0.10 + len(self.title) * _TITLE_LINE + len(self.about) * _LINE

    @property
    def below(self) -> float:
        return 0.12 + len(self.notes) * _LINE


def _write(drawn: Figure, words: _Words) -> None:
    width, height = drawn.get_size_inches()
    heights = [height - 0.06 - number * _TITLE_LINE for number in range(len(words.title))]
    heights += [height - 0.06 - len(words.title) * _TITLE_LINE - number * _LINE for number in range(len(words.about))]
    heights += [0.07 + number * _LINE for number in range(len(words.notes), 0, -1)]
    for inches, line in zip(heights, [*words.title, *words.about, *words.notes], strict=True):
        bold: Any = {"fontsize": style.FONT + 1, "fontweight": "bold"} if line in words.title else {"color": "#444444"}
        drawn.text(0.08 / width, inches / height, line, ha="left", va="top", parse_math=False, **bold)


def _axes(drawn: Figure, inches: tuple[float, float, float, float]) -> Axes:
    width, height = drawn.get_size_inches()
    # so that every token is as wide as every other
    left, bottom, across, up = map(_pixels, inches)
    return drawn.add_axes((left / width, bottom / height, across / width, up / height))


def _pixels(inches: float) -> float:
    """The nearest whole number of pixels."""
    return round(inches * DPI) / DPI


def _draw(axes: Axes, panel: _Panel, picture: Picture) -> Any:  # noqa: ANN401 - matplotlib's image
    N = panel.weights.shape[-1]
    if picture.causal:
        later = np.ma.masked_less(np.triu(np.ones((N, N)), 1), 1)
        axes.imshow(later, cmap=ListedColormap([_LATER]), interpolation="none")
    colours, scale = _colours(signed=picture.signed)
    shown = axes.imshow(_of_the_largest(panel.weights), cmap=colours, norm=scale, interpolation="none")
    ticks = range(0, N, max(1, round(N / 4)))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(pad=1.5, length=2)
    axes.set_xlabel("key j", labelpad=1)
    axes.set_title(panel.title, loc="left", pad=3, fontsize=style.FONT, linespacing=1.1)
    return shown


def _frame(axes: Axes, side: float, *, named: bool) -> None:
    """Beside the outermost tokens, not over them; with the name of the queries' axis, or without."""
    axes.spines[:].set_visible(False)
    out = 0.6 / 72 / side
    frame = Rectangle(
        (-out, -out), 1 + 2 * out, 1 + 2 * out, transform=axes.transAxes, clip_on=False, fill=False, linewidth=0.5
    )
    axes.add_patch(frame)
    axes.tick_params(labelleft=named)
    if named:
        axes.set_ylabel("query i", labelpad=1)


def _of_the_largest(weights: Weights) -> Any:  # noqa: ANN401 - numpy's masked arrays have no usable type
    """Each row over its largest weight; what is exactly zero is masked, and so stays white."""
    largest = np.abs(weights).max(axis=-1, keepdims=True)
    shares = np.divide(weights, largest, out=np.zeros_like(weights), where=largest > 0)
    return np.ma.masked_equal(shares, 0)


def _colours(*, signed: bool) -> tuple[Colormap, Normalize]:
    """Even the faintest weight is darker than paper."""
    if signed:
        shades = np.array([_shade("RdBu", x) for x in np.r_[np.linspace(0, 0.42, 128), np.linspace(0.58, 1, 128)]])
        return ListedColormap(shades), Normalize(-1, 1)
    return ListedColormap([_shade("viridis_r", x) for x in np.linspace(0.08, 1, 256)]), LogNorm(_FAINTEST, 1, clip=True)


def _shade(name: str, x: float) -> Any:  # noqa: ANN401
    return colormaps[name](float(x))


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


def _notes(picture: Picture) -> Iterator[str]:
    """What the colours do not say."""
    later = ", grey: later than the query" if picture.causal else ""
    yield f"White: no weight at all{later}."
    if len(picture.weights) > 1:
        alike = len({(weights != 0).tobytes() for weights in picture.weights}) == 1
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
