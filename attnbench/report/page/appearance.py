"""The looks of the figures as a web page has them: colours that turn with the theme, dashes, corners of markers."""

from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from attnbench.report.drawing.style import Look

_DARK_BACK = (20, 23, 26)
"""As in the style sheet."""
_CONTRAST = 4.5
_STEPS = 20
_WIDTH = 1.6
"""Of a line; dashes grow with it."""
_KNOWN = mpl.rcParamsDefault
_PATTERNS: dict[str, Sequence[float]] = {
    "--": _KNOWN["lines.dashed_pattern"],
    "-.": _KNOWN["lines.dashdot_pattern"],
    ":": _KNOWN["lines.dotted_pattern"],
}


def variables(looks: Iterable[Look]) -> str:
    """A CSS variable for each colour, which is lighter on a dark ground where it would be lost there."""
    return "".join(f"{name(color)}:light-dark({color},{on_dark(color)});" for color in _colors(looks))


def _colors(looks: Iterable[Look]) -> list[str]:
    return sorted({look.color for look in looks})


def name(color: str) -> str:
    """`--c-d55e00`."""
    return f"--c-{color.removeprefix('#').lower()}"


def on_dark(color: str) -> str:
    """The colour, mixed with so much white that its contrast with the dark ground is that of text (WCAG 2.1, 1.4.3).

    Greys are turned round first, so that black is as far from the ground as it was, and stays apart from the others.
    """
    parts = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    parts = [255 - part for part in parts] if len(set(parts)) == 1 else parts
    for step in range(_STEPS + 1):
        mixed = [round(part + (255 - part) * step / _STEPS) for part in parts]
        if contrast(mixed, _DARK_BACK) >= _CONTRAST:
            break
    return f"#{''.join(f'{part:02x}' for part in mixed)}"


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """Of two colours of 0 to 255, from 1 to 21 (WCAG 2.1, contrast ratio)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Sequence[int]) -> float:
    """Relative (WCAG 2.1)."""
    shares = [part / 255 for part in color]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def dashes(line: str | tuple[int, tuple[int, ...]]) -> str:
    """As `stroke-dasharray` has it; empty for a line without gaps."""
    pattern = line[1] if isinstance(line, tuple) else _PATTERNS.get(line, ())
    return " ".join(f"{part * _WIDTH:.3g}" for part in pattern)


def corners(marker: str) -> list[list[float]]:
    """Of a marker, in units of a circle's radius, down is positive; none of a circle."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    if path.codes is not None and (np.asarray(path.codes) == Path.CURVE4).any():
        return []
    first = np.asarray(path.to_polygons(closed_only=False)[0], dtype=float)
    # matplotlib's circle has a radius of one half
    return [[round(2 * x, 2), round(-2 * y, 2)] for x, y in first.tolist()]
