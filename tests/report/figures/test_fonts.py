"""The smaller font shows what the whole one shows, letter for letter; and figures are drawn without it too."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties, fontManager, get_font
from PIL import Image

from attnbench.report.drawing import fonts, style
from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.text.names import drawable
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What one test makes of the fonts is not the next one's."""
    fonts.families.cache_clear()
    yield
    fonts.families.cache_clear()


def pixels(small: "Synthetic") -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    small.report = ReportSpec(plots=("time",))
    (plot,) = plots(Findings.of(small.run(), small.records()))
    with Image.open(io.BytesIO(plot.images["png"])) as picture:
        return np.asarray(picture.convert("RGB"))


def test_a_figure_is_the_same_with_either_font(small: "Synthetic", monkeypatch: pytest.MonkeyPatch) -> None:
    first = pixels(small)
    assert fonts.families()[0] != fonts.WHOLE
    monkeypatch.setattr(fonts, "families", lambda: (fonts.WHOLE,))
    assert (pixels(small) == first).all()


def test_it_has_every_letter_that_is_let_through() -> None:
    letters = {letter for number in range(0x20, 0x3000) for letter in drawable(chr(number))}
    known = get_font(fontManager.findfont(FontProperties(family=fonts.families()[0]))).get_charmap()
    whole = get_font(fontManager.findfont(FontProperties(family=fonts.WHOLE))).get_charmap()
    assert {letter for letter in letters if ord(letter) in whole and ord(letter) not in known} == set()


def test_where_it_cannot_be_kept_the_whole_font_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpl, "get_cachedir", lambda: str(tmp_path / "none"))
    assert fonts.families() == (fonts.WHOLE,)
    with style.applied():
        assert mpl.rcParams["font.family"] == [fonts.WHOLE]


def test_a_broken_file_of_it_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpl, "get_cachedir", lambda: str(tmp_path))
    fonts.families()
    for file in tmp_path.glob("*.ttf"):
        file.write_bytes(b"no font")
    fonts.families.cache_clear()
    assert fonts.families() == (fonts.WHOLE,)
