"""Every kind in every style as it was when it was looked at.

To renew the pictures after a wanted change: write `picture` to the files, and look at them.
"""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images

from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.drawing.sheet import SLIDE, Sheet, Style, Width, sheet
from attnbench.report.figures.kinds import Kind
from attnbench.report.findings import Findings

Suited = Callable[..., Findings]
Draw = Callable[[Findings, Kind, Sheet], list[Figure]]

GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
_TOLERANCE = 2.0
_PIXELS = 90_000
"""Of a picture."""
SHEETS = {
    "paper-single": sheet(Style.PAPER, Width.SINGLE),
    "paper-double": sheet(Style.PAPER, Width.DOUBLE),
    "talk": SLIDE,
    "web": sheet(Style.WEB, Width.DOUBLE),
}


def picture(findings: Findings, kind: Kind, on: Sheet, draw: Draw) -> bytes:
    """Of the first figure, small."""
    first = draw(findings, kind, on)[0]
    width, height = first.get_size_inches()
    with style.applied(on.settings):
        return images(first, ("png",), int(math.sqrt(_PIXELS / float(width * height))))["png"]


@pytest.mark.parametrize("on", SHEETS)
@pytest.mark.parametrize("kind", list(Kind))
def test_a_figure_looks_as_it_did(kind: Kind, on: str, suited: Suited, draw: Draw, tmp_path: Path) -> None:
    name = f"{kind}-{on}.png"
    (tmp_path / name).write_bytes(picture(suited(kind), kind, SHEETS[on], draw))
    difference = compare_images(str(GOLDEN / name), str(tmp_path / name), _TOLERANCE)
    assert difference is None, difference


def test_the_pictures_are_small() -> None:
    assert all(file.stat().st_size <= 60_000 for file in GOLDEN.glob("*.png"))
    assert len(list(GOLDEN.glob("*.png"))) == len(Kind) * len(SHEETS)
