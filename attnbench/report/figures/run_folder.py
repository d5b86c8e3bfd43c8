"""The figures of a run folder: time, memory and state against length, one per workload; of scores and of training their own."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from attnbench.analyze.sections import Section
from attnbench.report.drawing import grid, style
from attnbench.report.drawing.board import Board
from attnbench.report.drawing.caption import caption
from attnbench.report.drawing.images import images
from attnbench.report.drawing.lines import quantity
from attnbench.report.drawing.lines.over_length import over_length
from attnbench.report.drawing.lines.quantity import Kind, Quantity
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.figure import fidelity_caption, fidelity_figure
from attnbench.report.questions.fidelity.numerics import numerics_board, numerics_caption
from attnbench.report.questions.learning.curves.board import curves_board, curves_caption
from attnbench.report.questions.learning.drawings import drawings_board, drawings_caption, drawings_wanted
from attnbench.schema.cell import Workload


@dataclass(frozen=True)
class Plot:
    """One figure: the workload it belongs to, its kind as the suite names it, the bytes by format, the caption."""

    workload: Workload
    kind: str
    images: dict[str, bytes]
    caption: str


def plots(findings: Findings) -> list[Plot]:
    """All that the suite asks for: one per workload and kind, as far as the workload has it."""
    workloads = dict.fromkeys(section.workload for section in findings.sections)
    with style.applied():
        return [
            _made(findings, workload, Kind(kind))
            for workload in workloads
            for kind in findings.run.suite.report.plots
            if _has(findings, workload, Kind(kind))
        ]


_OWN = {
    Kind.FIDELITY: Workload.FIDELITY,
    Kind.NUMERICS: Workload.NUMERICS,
    Kind.CURVES: Workload.TRAIN,
    Kind.DRAWINGS: Workload.TRAIN,
}
"""Kinds that are of one workload alone."""


def _has(findings: Findings, workload: Workload, kind: Kind) -> bool:
    """States are kept where tokens come one at a time, and what is scored is neither timed nor a matter of memory."""
    if kind is Kind.DRAWINGS and not drawings_wanted(_of(findings, Workload.TRAIN)):
        return False
    if not workload.is_timed or kind in _OWN:
        return _OWN.get(kind) is workload
    return kind is not Kind.STATE or workload.keeps_state


def _made(findings: Findings, workload: Workload, kind: Kind) -> Plot:
    """To be called within `style.applied()`."""
    members = _of(findings, workload)
    if kind is Kind.FIDELITY:
        picture, words = fidelity_figure(findings, members), fidelity_caption(findings, members)
    elif kind is Kind.NUMERICS:
        picture, words = _single(numerics_board(findings, members, FOLDER)), numerics_caption(findings, members)
    elif kind is Kind.CURVES:
        picture, words = _single(curves_board(findings, members, FOLDER)), curves_caption(findings, members)
    elif kind is Kind.DRAWINGS:
        members = drawings_wanted(members)
        picture, words = _single(drawings_board(findings, members, FOLDER)), drawings_caption(findings, members)
    else:
        shown = _shown(findings, workload, kind)
        picture, words = figure(findings, workload, shown), caption(findings, members, shown)
    return Plot(workload, kind.value, images(picture), words)


def _shown(findings: Findings, workload: Workload, kind: Kind) -> Quantity:
    if kind is Kind.MEMORY:
        return quantity.memory(findings.counter, workload)
    return quantity.state() if kind is Kind.STATE else quantity.time(workload)


def figure(findings: Findings, workload: Workload, shown: Quantity) -> Figure:
    """To be called within `style.applied()`."""
    return _single(over_length(findings, _of(findings, workload), [shown], FOLDER))


def _single(board: Board) -> Figure:
    """Of a run folder, whose figures go on one sheet."""
    (picture,) = grid.figures(board, FOLDER)
    return picture


def _of(findings: Findings, workload: Workload) -> list[Section]:
    return [section for section in findings.sections if section.workload is workload]
