"""The images of a training as small PNG files within the page: what was given, how it was completed, what was drawn."""

import base64
from dataclasses import dataclass
from io import BytesIO

from matplotlib.image import imsave

from attnbench.analyze.sections import Section
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.pixels import Mosaic, mosaic
from attnbench.schema.cell import Workload

_SIDE = 44
"""Pixels of the page that an image takes, more or less."""


@dataclass(frozen=True)
class Drawn:
    """Of one method at one length, by its first seed: three rows of images."""

    name: str
    address: str
    """The file itself, as a data URL."""
    words: str
    width: int
    height: int


def drawings(findings: Findings, section: Section) -> tuple[Drawn, ...]:
    """Of all methods that have any."""
    if section.workload is not Workload.TRAIN:
        return ()
    names = {cell.cell.key: _name(findings, section, cell.cell.label, cell.cell.problem.N) for cell in section.summaries}
    found = ((names[cell.cell.key], mosaic(cell)) for cell in section.summaries)
    return tuple(_drawn(name, each) for name, each in found if each is not None)


def _name(findings: Findings, section: Section, label: str, N: int) -> str:
    return f"{findings.names[label]}{f', N = {N:,}' if len(section.lengths) > 1 else ''}"


def _drawn(name: str, images: Mosaic) -> Drawn:
    file, scale = BytesIO(), max(1, round(_SIDE / images.rows))
    imsave(file, images.pixels, format="png")
    rows, columns, _ = images.pixels.shape
    count = len(images.lefts)
    words = f"{name}: {count} image{'' if count == 1 else 's'} given, the same completed below their half, and as many drawn"
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return Drawn(name, address, words, columns * scale, rows * scale)
