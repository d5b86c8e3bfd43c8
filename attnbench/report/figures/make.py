"""The one registry of figures, for a run's own folder, for `plot` and for Python; and figures as files."""

from collections.abc import Callable, Mapping, Sequence

from attnbench.analyze.quantities import MEMORY
from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, latex, text
from attnbench.report.drawing.sheet import FOLDER, Sheet
from attnbench.report.figures.exchange import memory_against_time
from attnbench.report.figures.lines import decode, figure, numerics, ratio, scaling
from attnbench.report.figures.pareto import pareto
from attnbench.report.figures.roofline import roofline
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.figure import crossover
from attnbench.report.questions.fidelity import fidelity
from attnbench.report.questions.learning.figure import curves, drawings
from attnbench.schema.figures import FIGURES

FORMATS = ("pdf", "svg", "png", "pgf")
_OF_FOLDERS = ("png", "svg", "pdf")
_MAKERS: Mapping[str, Callable[[Findings, Sheet], list[Drawing]]] = {
    "scaling": scaling,
    "pareto": pareto,
    "roofline": roofline,
    "memory_against_time": memory_against_time,
    "crossover": crossover,
    "decode": decode,
    "ratio": ratio,
    "fidelity": fidelity,
    "numerics": numerics,
    "curves": curves,
    "drawings": drawings,
}
USUAL = (*_MAKERS, MEMORY)
"""What is drawn where nothing is asked for, as far as a run has it."""
KINDS = (*_MAKERS, *FIGURES)
"""Every figure of the vocabulary is a kind too: its lines over length."""


def drawn(findings: Findings, kind: str, sheet: Sheet) -> list[Drawing]:
    """Draw a kind, at least once; to be called within `style.applied`. Raises CannotDrawError where the run lacks it."""
    if not findings.summaries:
        raise CannotDrawError("nothing of the run is left to draw")
    return _MAKERS[kind](findings, sheet) if kind in _MAKERS else figure(findings, kind, sheet)


def folder_files(findings: Findings) -> dict[str, bytes]:
    """Return the figures that the suite asks for, as far as the run has them: `<workload>/<kind>.{png,svg,pdf,txt}`."""
    found: dict[str, bytes] = {}
    with style.applied(FOLDER.settings):
        for kind in findings.run.suite.report.plots:
            try:
                pictures = drawn(findings, kind, FOLDER)
            except CannotDrawError:
                # a suite may ask for more than this machine, or this half of a run, has
                continue
            for each in pictures:
                name = f"{each.workload}/{kind}"
                # on a sheet without an end there is one figure
                found |= {f"{name}.{form}": image for form, image in images(each.sheets[0], _OF_FOLDERS).items()}
                found[f"{name}.txt"] = each.caption.encode()
    return found


def files(findings: Findings, kind: str, sheet: Sheet, formats: Sequence[str], again: str) -> dict[str, bytes]:
    """Return KIND.FORMAT, KIND.txt and KIND.tex, with the workload where there are several; from the second sheet on numbered.

    `again` is the command that draws them. Raises CannotDrawError where the run lacks what the kind shows.
    """
    if kind == "drawings" and "pgf" in formats:
        raise CannotDrawError("PGF holds no pixels; write it as pdf, svg or png")
    found: dict[str, bytes] = {}
    with style.applied(sheet.settings):
        pictures = drawn(findings, kind, sheet)
        for each in pictures:
            name = f"{kind}-{each.workload}" if len(pictures) > 1 and each.workload != kind else kind
            for number, picture in enumerate(each.sheets, 1):
                stem = f"{name}-{number}" if number > 1 else name
                found |= {f"{stem}.{form}": image for form, image in images(picture, formats, sheet.dpi).items()}
            source = [f"Measured by: {findings.run.command or 'a command that was not recorded'}", f"Drawn by: {again}"]
            said = each.caption + text(source)
            found |= {f"{name}.txt": said.encode(), f"{name}.tex": latex(said, name).encode()}
    return found
