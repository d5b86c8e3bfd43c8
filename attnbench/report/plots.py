"""The figures of a run folder: time, memory and state against length, one per workload; fidelity has a figure of its own."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from attnbench.analyze.sections import Section
from attnbench.report import grid, quantity, style
from attnbench.report.caption import caption
from attnbench.report.fidelity_plot import fidelity_caption, fidelity_figure
from attnbench.report.findings import Findings
from attnbench.report.images import images
from attnbench.report.over_length import over_length
from attnbench.report.quantity import Kind, Quantity
from attnbench.report.sheet import FOLDER
from attnbench.schema.cell import Workload


@dataclass(frozen=True)
class Plot:
    """One figure: the workload it belongs to, `time`, `memory`, `state` or `fidelity`, the bytes by format, the caption."""

    workload: Workload
    kind: str
    images: dict[str, bytes]
    caption: str


def plots(findings: Findings) -> list[Plot]:
    """All that the suite asks for: one per workload and kind, as far as the workload has it."""
    workloads = dict.fromkeys(section.workload for section in findings.sections)
    with style.applied():
        return [
            _fidelity(findings) if Kind(kind) is Kind.FIDELITY else _plot(findings, workload, kind)
            for workload in workloads
            for kind in findings.run.suite.report.plots
            if _has(workload, Kind(kind))
        ]


def _has(workload: Workload, kind: Kind) -> bool:
    """States are kept in decoding only, and fidelity is neither timed nor a matter of memory."""
    if workload is Workload.FIDELITY or kind is Kind.FIDELITY:
        return workload is Workload.FIDELITY and kind is Kind.FIDELITY
    return kind is not Kind.STATE or workload.decodes


def _fidelity(findings: Findings) -> Plot:
    members = _of(findings, Workload.FIDELITY)
    made = images(fidelity_figure(findings, members))
    return Plot(Workload.FIDELITY, Kind.FIDELITY.value, made, fidelity_caption(findings, members))


def _shown(findings: Findings, workload: Workload, kind: str) -> Quantity:
    if Kind(kind) is Kind.MEMORY:
        return quantity.memory(findings.counter, workload)
    return quantity.state() if Kind(kind) is Kind.STATE else quantity.time(workload)


def _plot(findings: Findings, workload: Workload, kind: str) -> Plot:
    shown = _shown(findings, workload, kind)
    made = images(figure(findings, workload, shown))
    return Plot(workload, kind, made, caption(findings, _of(findings, workload), shown))


def figure(findings: Findings, workload: Workload, shown: Quantity) -> Figure:
    """To be called within `style.applied()`."""
    (picture,) = grid.figures(over_length(findings, _of(findings, workload), [shown], FOLDER), FOLDER)
    return picture


def _of(findings: Findings, workload: Workload) -> list[Section]:
    return [section for section in findings.sections if section.workload is workload]
