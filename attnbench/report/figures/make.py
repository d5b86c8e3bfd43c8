"""Figures as files: every sheet in every format, and a caption as text."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from attnbench.report.drawing import grid, style
from attnbench.report.drawing.caption import text
from attnbench.report.drawing.images import images
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.figures.crossings import crossover
from attnbench.report.figures.kinds import CannotDrawError, Drawing, Kind
from attnbench.report.figures.lines import decode, memory, ratio, scaling
from attnbench.report.figures.pareto.figure import pareto
from attnbench.report.figures.pgf import pgf
from attnbench.report.figures.roofline import roofline
from attnbench.report.figures.training import curves, drawings
from attnbench.report.findings import Findings

FORMATS = ("pdf", "svg", "png", "pgf")
_MAKERS: Mapping[Kind, Callable[[Findings, Sheet], list[Drawing]]] = {
    Kind.SCALING: scaling,
    Kind.MEMORY: memory,
    Kind.PARETO: pareto,
    Kind.ROOFLINE: roofline,
    Kind.CROSSOVER: crossover,
    Kind.DECODE: decode,
    Kind.RATIO: ratio,
    Kind.CURVES: curves,
    Kind.DRAWINGS: drawings,
}


def files(findings: Findings, kind: Kind, sheet: Sheet, formats: Sequence[str], again: str) -> dict[str, bytes]:
    """By name: KIND.FORMAT and KIND.txt, with the workload where there are several, and numbers from the second sheet on.

    `again` is the command that draws them. Raises CannotDrawError where the run lacks what the kind shows.
    """
    if kind is Kind.DRAWINGS and "pgf" in formats:
        raise CannotDrawError("PGF holds no pixels; write it as pdf, svg or png")
    found: dict[str, bytes] = {}
    with style.applied(sheet.settings):
        drawings = drawn(findings, kind, sheet)
        for drawing in drawings:
            name = f"{kind}-{drawing.workload}" if len(drawings) > 1 and drawing.workload != kind else kind.value
            for number, picture in enumerate(grid.figures(drawing.board, sheet), 1):
                stem = f"{name}-{number}" if number > 1 else name
                found |= {f"{stem}.{form}": _saved(picture, form, sheet) for form in formats}
            found[f"{name}.txt"] = (drawing.caption + _source(findings, again)).encode()
    return found


def drawn(findings: Findings, kind: Kind, sheet: Sheet) -> list[Drawing]:
    """At least one; to be called within `style.applied`. Raises CannotDrawError."""
    if not findings.summaries:
        raise CannotDrawError("nothing of the run is left to draw")
    return _MAKERS[kind](findings, sheet)


def _saved(picture: Figure, form: str, sheet: Sheet) -> bytes:
    return pgf(picture) if form == "pgf" else images(picture, (form,), sheet.dpi)[form]


def _source(findings: Findings, again: str) -> str:
    return text([f"Measured by: {findings.run.command or 'a command that was not recorded'}", f"Drawn by: {again}"])
