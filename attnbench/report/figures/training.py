"""Figures of training: how it went, and what the models draw."""

from attnbench.report.drawing.sheet import Sheet
from attnbench.report.figures.kinds import CannotDrawError, Drawing
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.curves.board import curves_board, curves_caption
from attnbench.report.questions.learning.drawings import drawings_board, drawings_caption, drawings_wanted
from attnbench.schema.cell import Workload


def curves(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Held-out loss and accuracy against updates and time."""
    sections = [section for section in findings.sections if section.workload is Workload.TRAIN]
    if not sections:
        raise CannotDrawError("the run trains nothing; its suite would say workloads: [train]")
    return [Drawing(Workload.TRAIN.value, curves_board(findings, sections, sheet), curves_caption(findings, sections))]


def drawings(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """What the models that were trained on images complete and draw."""
    trained = [section for section in findings.sections if section.workload is Workload.TRAIN]
    sections = drawings_wanted(trained)
    if not sections:
        raise CannotDrawError("no model of the run was to draw; its suite would say training: {task: pixels, drawings: 8}")
    return [Drawing(Workload.TRAIN.value, drawings_board(findings, sections, sheet), drawings_caption(findings, sections))]
