"""What a figure is drawn on: a column of a paper, a slide, a page of the web; or just as large as its panels need."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from attnbench.report.drawing.style import FONT, SETTINGS


class Style(StrEnum):
    """What a figure is for."""

    PAPER = "paper"
    TALK = "talk"
    WEB = "web"


class Width(StrEnum):
    """Of the two columns of a paper, one or both."""

    SINGLE = "single"
    DOUBLE = "double"


@dataclass(frozen=True)
class Sheet:
    """Inches and points; by default that of a run folder."""

    width: float | None = None
    height: float | None = None
    """None: as high as the panels need."""
    tallest: float | None = None
    """What is higher goes on on another sheet."""
    font: float = FONT
    methods: int = 16
    """Lines in one panel, at most."""
    titled: bool = True
    legend: bool = True
    clear: bool = False
    """Whether whatever lies behind shows through."""
    dpi: int = 200
    """Of a PNG."""

    @property
    def room(self) -> float | None:
        """Width in units of letters of 7 points."""
        return None if self.width is None else self.width * FONT / self.font

    @property
    def settings(self) -> dict[Any, Any]:
        """For `style.applied`."""
        sizes = {name: value * self.font / FONT for name, value in SETTINGS.items() if isinstance(value, float)}
        return {**SETTINGS, **sizes, **(_CLEAR if self.clear else {})}


# a grey that stands out from white and from black alike
_INK = "#777777"
_CLEAR: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "grid.color": "#80808055",
}
_TALK, _WEB = 16.0, 10.0

FOLDER = Sheet()
"""Of the figures of a run folder."""
SLIDE = Sheet(width=40 / 3, height=7.5, font=_TALK, methods=8, legend=False, dpi=144)
"""16:9, with large letters and lines."""
_PAPER = {
    Width.SINGLE: Sheet(width=3.35, tallest=9.0, titled=False),
    Width.DOUBLE: Sheet(width=7.0, tallest=9.0, titled=False),
}
# CSS has 96 pixels to the inch
_PAGE = {
    Width.SINGLE: Sheet(width=5.0, font=_WEB, clear=True, dpi=192),
    Width.DOUBLE: Sheet(width=9.0, font=_WEB, clear=True, dpi=192),
}


def sheet(style: Style, width: Width) -> Sheet:
    """A slide has one width."""
    if style is Style.TALK:
        return SLIDE
    return _PAPER[width] if style is Style.PAPER else _PAGE[width]
