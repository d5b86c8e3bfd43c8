"""The letters of figures: DejaVu Sans, less the thousands that no figure shows.

A PDF holds the letters that it shows. To take them out of the whole font took longer than all else of a figure, so they are
taken out of a smaller one, made once and kept beside matplotlib's own cache: glyphs, kerning and ligatures are the same.
"""

import os
from functools import cache
from pathlib import Path

import matplotlib as mpl
from fontTools import subset  # type: ignore[import-untyped]
from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]
from matplotlib.font_manager import FontProperties, fontManager

WHOLE = "DejaVu Sans"
_SMALL = "DejaVu Some"
# a changed choice of letters makes another file
_VERSION = 1
# what `drawable` lets through, the box that it puts for others, and the space of no width
_LETTERS = [*range(0x20, 0x250), *map(ord, "–−×…∝φ□\u200b")]


@cache
def families() -> tuple[str, ...]:
    """The smaller font, known to matplotlib from now on, and the whole one for what that lacks; that alone without a cache."""
    try:
        for weight in ("normal", "bold"):
            fontManager.addfont(_file(weight))
    except (OSError, RuntimeError, TTLibError):
        return (WHOLE,)
    return _SMALL, WHOLE


def _file(weight: str) -> Path:
    """The smaller font; made where it is not there yet."""
    whole = fontManager.findfont(FontProperties(family=WHOLE, weight=weight))
    file = Path(mpl.get_cachedir()) / f"attnbench-{_VERSION}-{mpl.__version__}-{Path(whole).stem}.ttf"
    if not file.exists():
        _make(Path(whole), file)
    return file


def _make(whole: Path, file: Path) -> None:
    options = subset.Options(glyph_names=True, layout_features=["*"], name_IDs=["*"], recommended_glyphs=True)
    # of the program that drew the letters
    options.drop_tables.append("FFTM")
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=_LETTERS)
    # as a whole or not at all: another process may want it too
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with subset.load_font(whole, options) as font:
        subsetter.subset(font)
        _rename(font)
        subset.save_font(font, partial, options)
    partial.replace(file)


def _rename(font: TTFont) -> None:
    """So that it is not taken for the font that it is a part of."""
    for record in font["name"].names:
        text = record.toUnicode()
        if record.nameID in {1, 3, 4, 16}:
            record.string = text.replace(WHOLE, _SMALL)
        if record.nameID == 6:
            record.string = text.replace("DejaVuSans", "DejaVuSome")
