"""Every kind as it was when it was looked at; and one kind on every sheet.

RENEW=1 writes the pictures anew after a wanted change: look at them.
"""

import math
import os
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images

from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.drawing.sheet import FOLDER, SLIDE, Style, sheet
from attnbench.report.figures.make import drawn
from tests.report.figures.conftest import KINDS, Suited

GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
_TOLERANCE = 2.0
_PIXELS = 90_000
"""Pixels of a picture."""
SHEETS = {
    "paper-single": sheet(Style.PAPER, "single"),
    "paper-double": sheet(Style.PAPER),
    "talk": SLIDE,
    "web": sheet(Style.WEB),
    "folder": FOLDER,
}
SHOWN = [*((kind, "paper-double") for kind in KINDS), *(("scaling", on) for on in SHEETS if on != "paper-double")]


@pytest.mark.parametrize(("kind", "on"), SHOWN)
def test_a_figure_looks_as_it_did(kind: str, on: str, suited: Suited, tmp_path: Path) -> None:
    name = f"{kind}-{on}.png"
    made = (GOLDEN if os.environ.get("RENEW") else tmp_path) / name
    with style.applied(SHEETS[on].settings):
        first = drawn(suited(kind), kind, SHEETS[on])[0].sheets[0]
        width, height = first.get_size_inches()
        made.write_bytes(images(first, ("png",), int(math.sqrt(_PIXELS / float(width * height))))["png"])
    difference = compare_images(str(GOLDEN / name), str(made), _TOLERANCE)
    assert difference is None, difference


def test_the_pictures_are_small_and_no_others_are_kept() -> None:
    assert all(file.stat().st_size <= 60_000 for file in GOLDEN.glob("*.png"))
    assert {file.stem for file in GOLDEN.glob("*.png")} == {f"{kind}-{on}" for kind, on in SHOWN}
