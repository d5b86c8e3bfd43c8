r"""A figure as PGF, to be \input into a document, whose own fonts then write the figure's words.

matplotlib's own writer runs LaTeX to measure every word. Here words are measured in the font of our other formats: LaTeX sets
them by the same anchors, so that nothing but the width of a label depends on it, and no LaTeX is needed. Whatever is in a name
is escaped.
"""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure

from attnbench.report.text.latex import escape

_HEAD = "% needs \\usepackage{pgf}; with \\usepackage{lmodern} letters have just the size that they should\n"
_DPI = 72.0


def pgf(figure: Figure) -> bytes:
    """To be called within `style.applied()`; the figure's own resolution is as before afterwards."""
    out, before = io.StringIO(), figure.dpi
    figure.set_dpi(_DPI)
    width, height = figure.get_size_inches()
    corner = f"\\pgfqpoint{{{width:f}in}}{{{height:f}in}}"
    out.write(f"{_HEAD}\\begingroup%\n\\makeatletter%\n\\begin{{pgfpicture}}%\n")
    out.write(f"\\pgfpathrectangle{{\\pgfpointorigin}}{{{corner}}}%\n\\pgfusepath{{use as bounding box, clip}}%\n")
    # the document's own font
    with mpl.rc_context({"pgf.rcfonts": False}):
        figure.draw(_Renderer(figure, out))  # type: ignore[no-untyped-call]
    out.write("\\end{pgfpicture}%\n\\makeatother%\n\\endgroup%\n")
    figure.set_dpi(before)
    return out.getvalue().encode()


class _Renderer(RendererPgf):
    """Words measured without LaTeX, and escaped."""

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:  # noqa: ANN401
        # past the parent, which asks LaTeX
        found: tuple[float, float, float] = RendererBase.get_text_width_height_descent(self, s, prop, ismath)
        return found

    def draw_text(self, gc: Any, x: float, y: float, s: str, *rest: Any, **more: Any) -> None:  # noqa: ANN401
        super().draw_text(gc, x, y, escape(s), *rest, **more)  # type: ignore[no-untyped-call]
