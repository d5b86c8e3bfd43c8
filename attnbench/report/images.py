"""Figures as bytes: without dates and versions, so that the same input gives the same bytes."""

import io

from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DPI = 200
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def images(figure: Figure, formats: tuple[str, ...] = FORMATS) -> dict[str, bytes]:
    """By format. To be called within `style.applied()`, whose settings belong to it."""
    return {form: _saved(figure, form) for form in formats}


def _saved(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=DPI, metadata=_METADATA[form])
    return buffer.getvalue()
