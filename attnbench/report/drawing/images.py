"""Figures as bytes, without dates and versions, so that the same input gives the same bytes; and as pictures of a page."""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from attnbench.report.text.latex import escape

DPI = 200
_WRITERS: dict[str, tuple[Any, dict[str, Any]]] = {
    # PNG as small as with the usual 6, and sooner
    "png": (FigureCanvasAgg, {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}}),
    "svg": (FigureCanvasSVG, {"metadata": {"Date": None, "Creator": None}}),
    "pdf": (FigureCanvasPdf, {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
}
_DARK_BACK = (20, 23, 26)
"""The dark ground, as in the style sheets."""
_CONTRAST = 4.5
_STEPS = 20
_LETTERS = "#444444"
_PGF_HEAD = "% needs \\usepackage{pgf}; with \\usepackage{lmodern} letters have just the size that they should\n"


def images(figure: Figure, formats: Sequence[str], dpi: int = DPI) -> dict[str, bytes]:
    """Return the figure in each format; to be called within `style.applied()`, whose settings belong to it."""
    if engine := figure.get_layout_engine():
        # laid out once for all formats
        engine.execute(figure)
        figure.set_layout_engine("none")
    found, before = dict[str, bytes](), figure.dpi
    for form in formats:
        if form == "pgf":
            found[form] = _pgf(figure)
            continue
        # printed by its canvas: `savefig` would draw it a second time before, to find out what is laid out already
        buffer, (canvas, options) = io.BytesIO(), _WRITERS[form]
        figure.set_dpi(dpi)
        getattr(canvas(figure), f"print_{form}")(buffer, **options)
        found[form] = buffer.getvalue()
    figure.set_dpi(before)
    return found


def _pgf(figure: Figure) -> bytes:
    r"""Return the figure as PGF, to be \input into a document, whose own fonts then write the figure's words."""
    out = io.StringIO()
    figure.set_dpi(72)
    width, height = figure.get_size_inches()
    corner = f"\\pgfqpoint{{{width:f}in}}{{{height:f}in}}"
    out.write(f"{_PGF_HEAD}\\begingroup%\n\\makeatletter%\n\\begin{{pgfpicture}}%\n")
    out.write(f"\\pgfpathrectangle{{\\pgfpointorigin}}{{{corner}}}%\n\\pgfusepath{{use as bounding box, clip}}%\n")
    # the document's own font
    with mpl.rc_context({"pgf.rcfonts": False}):
        figure.draw(_WithoutLatex(figure, out))  # type: ignore[no-untyped-call]
    out.write("\\end{pgfpicture}%\n\\makeatother%\n\\endgroup%\n")
    return out.getvalue().encode()


class _WithoutLatex(RendererPgf):
    """Measures words in the font of our other formats, and escapes them.

    matplotlib's own runs LaTeX to measure every word. LaTeX sets them by the same anchors, so that nothing but the width of a
    label depends on the font that they are measured in.
    """

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:  # noqa: ANN401
        # past the parent, which asks LaTeX
        found: tuple[float, float, float] = RendererBase.get_text_width_height_descent(self, s, prop, ismath)
        return found

    def draw_text(self, gc: Any, x: float, y: float, s: str, *rest: Any, **more: Any) -> None:  # noqa: ANN401
        super().draw_text(gc, x, y, escape(s), *rest, **more)  # type: ignore[no-untyped-call]


def data_uri(figure: Figure) -> str:
    """Return a figure without a ground as an address that a page can show, its colours by whether the reader's page is dark.

    To be called within `style.applied()`.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with mpl.rc_context({"svg.fonttype": "none"}):
        svg = images(figure, ("svg",))["svg"].decode()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    colors = sorted(set(re.findall(r"#[0-9a-f]{6}\b", svg)))
    svg = re.sub(r"#([0-9a-f]{6})\b", r"var(--c\1)", svg)
    light = "".join(f"--c{color[1:]}:{color};" for color in colors)
    dark = "".join(f"--c{color[1:]}:{on_dark(color)};" for color in colors)
    # black letters say no colour of their own
    light, dark = f"svg{{{light}}}text{{fill:{_LETTERS}}}", f"svg{{{dark}}}text{{fill:{on_dark(_LETTERS)}}}"
    style = f"<style>{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"
    text = svg.replace("<defs>", f"{style}<defs>", 1)
    return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"


def on_dark(color: str) -> str:
    """Return the colour mixed with so much white that its contrast with a dark ground is that of text (WCAG 2.1, 1.4.3).

    Greys are turned round first, so that black is as far from the ground as it was, and stays apart from the others.
    """
    parts = bytes.fromhex(color[1:])
    parts = bytes(255 - part for part in parts) if len(set(parts)) == 1 else parts
    for step in range(_STEPS + 1):
        mixed = [round(part + (255 - part) * step / _STEPS) for part in parts]
        if contrast(mixed, _DARK_BACK) >= _CONTRAST:
            break
    return f"#{bytes(mixed).hex()}"


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the contrast ratio of two colours of 0 to 255, from 1 to 21 (WCAG 2.1)."""

    def luminance(color: Sequence[int]) -> float:
        shares = [part / 255 for part in color]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
