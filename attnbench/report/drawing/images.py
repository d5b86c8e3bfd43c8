"""Figures as bytes: without dates and versions, so that the same input gives the same bytes."""

import io
from typing import Any

from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DPI = 200
_ENCODED: dict[str, Any] = {"png": {"pil_kwargs": {"compress_level": 3}}}
"""As small as with the usual 6, and sooner."""
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def images(figure: Figure, formats: tuple[str, ...] = FORMATS, dpi: int = DPI) -> dict[str, bytes]:
    """By format. To be called within `style.applied()`, whose settings belong to it."""
    return {form: _saved(figure, form, dpi) for form in formats}


def _saved(figure: Figure, form: str, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=dpi, metadata=_METADATA[form], **_ENCODED.get(form, {}))
    return buffer.getvalue()
