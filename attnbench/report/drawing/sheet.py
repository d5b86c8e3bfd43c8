"""The sheet of a figure: the column of a paper, a slide, a page of the web, or just as large as its panels need."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from attnbench.report.drawing.style import FONT, SETTINGS


class Style(StrEnum):
    """The purpose of a figure."""

    PAPER = "paper"
    TALK = "talk"
    WEB = "web"


WIDTHS = {
    "single": 3.35,
    "double": 7.0,
    "neurips": 5.5,
    "icml": 3.25,
    "icml-double": 6.75,
    "acl": 3.03,
    "acl-double": 6.30,
    "cvpr": 3.25,
    "cvpr-double": 6.875,
}
"""Inches of one column, and of both, of the templates of venues."""
_WEB_WIDTHS = {"single": 5.0, "double": 9.0}
_UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27, "": 1.0}
_LENGTH = re.compile(r"(\d+\.?\d*|\.\d+) ?(in|cm|mm|pt|)")
_LEAST, _MOST = 1.5, 40.0


@dataclass(frozen=True)
class Sheet:
    """Inches and points; by default the sheet of a run folder."""

    width: float | None = None
    """None: as wide as the panels want."""
    height: float | None = None
    """None: as high as the panels need."""
    tallest: float | None = None
    """What is higher goes on on another sheet."""
    font: float = FONT
    methods: int = 16
    """Lines in one panel, at most."""
    titled: bool = True
    clear: bool = False
    """Whether whatever lies behind shows through."""
    dpi: int = 200
    """Dots per inch of a PNG."""
    failures: bool = True
    """Whether cells that were not measured are shown."""

    @property
    def settings(self) -> dict[Any, Any]:
        """The settings for `style.applied`."""
        ems = {name for name in SETTINGS if name.startswith("legend.") and name != "legend.fontsize"}
        sizes = {n: value * self.font / FONT for n, value in SETTINGS.items() if isinstance(value, float) and n not in ems}
        return {**SETTINGS, **sizes, **(_CLEAR if self.clear else {})}


# a grey that stands out from white and from black alike
_INK = "#777777"
_CLEAR: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "grid.color": "#80808055",
}

FOLDER = Sheet()
"""The sheet of the figures of a run folder."""
SLIDE = Sheet(width=40 / 3, height=7.5, font=16.0, methods=8, dpi=144)
"""16:9, with large letters and lines."""
_PAPER = Sheet(tallest=9.0, titled=False)
# CSS has 96 pixels to the inch
_PAGE = Sheet(font=10.0, clear=True, dpi=192)


def sheet(style: Style, width: str | None = None, height: str | None = None) -> Sheet:
    """Return the sheet for a width by name (`icml`) or in units (`5.5in`), and a height; raises ValueError."""
    if style is Style.TALK:
        if width or height:
            option = f"--width {width}" if width else f"--height {height}"
            raise ValueError(f"{option}: a slide has one size, 16:9; leave it out with --style talk")
        return SLIDE
    known = WIDTHS if style is Style.PAPER else _WEB_WIDTHS
    across = known.get(width or "double") or _inches(
        "--width", width or "", f"{', '.join(known)}, or a length as 5.5in or 14cm"
    )
    high = None if height is None else _inches("--height", height, "a length as 3in or 7.5cm")
    return replace(_PAPER if style is Style.PAPER else _PAGE, width=across, height=high)


def _inches(option: str, text: str, there_are: str) -> float:
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{option} {text}: there are: {there_are}")
    value = float(found[1]) * _UNITS[found[2]]
    if not _LEAST <= value <= _MOST:
        raise ValueError(f"{option} {text}: a figure is {_LEAST:g} to {_MOST:g} inches wide and high")
    return value
