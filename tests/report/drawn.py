"""Figures as tests look at them: drawn and laid out, their words, and the names in their legends."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from attnbench.report.drawing import style
from attnbench.report.drawing.kinds import CannotDrawError, Drawing
from attnbench.report.drawing.sheet import FOLDER, Sheet
from attnbench.report.figures.make import drawn
from attnbench.report.findings import Findings
from tests.report.conftest import Synthetic


def found(run: Synthetic) -> Findings:
    """Return what is found in a synthetic run."""
    return Findings.of(run.run(), run.records())


def drawings(findings: Findings, kind: str, on: Sheet = FOLDER) -> list[Drawing]:
    """Draw a kind, and lay it out as it is when it is saved."""
    with style.applied(on.settings):
        found = drawn(findings, kind, on)
        for picture in (picture for each in found for picture in each.sheets):
            FigureCanvasAgg(picture).draw()  # type: ignore[no-untyped-call]
    return found


def pictures(findings: Findings, kind: str, on: Sheet = FOLDER) -> list[Figure]:
    """Return all figures of a kind."""
    return [picture for each in drawings(findings, kind, on) for picture in each.sheets]


def words(picture: Figure) -> list[str]:
    """Return all text that is shown."""
    texts = [text for text in picture.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    return [plain for text in texts if (plain := text.get_text())]


def legend(picture: Figure) -> dict[str, Line2D]:
    """Return the sample beside each name."""
    (box,) = picture.legends
    names = [text.get_text() for text in box.get_texts()]
    return dict(zip(names, box.get_lines(), strict=True))


def title(picture: Figure) -> list[str]:
    """Return the lines above all panels."""
    return picture.get_suptitle().splitlines()


def refused(findings: Findings, kind: str) -> str:
    """Return why a kind cannot be drawn."""
    with style.applied(), pytest.raises(CannotDrawError) as error:
        drawn(findings, kind, FOLDER)
    return str(error.value)
