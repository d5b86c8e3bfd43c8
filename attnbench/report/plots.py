"""Figures: time, memory and state against length, one per workload; a column per mask, a row per set of conditions.

Fidelity has a figure of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from attnbench.analyze.sections import Section
from attnbench.report import panel, quantity, style
from attnbench.report.caption import caption
from attnbench.report.conditions import device_name
from attnbench.report.curve import Curve, curves
from attnbench.report.fidelity_plot import fidelity_caption, fidelity_figure
from attnbench.report.findings import Findings
from attnbench.report.images import images
from attnbench.report.names import drawable, shorten
from attnbench.report.parts import parts
from attnbench.report.quantity import Kind, Quantity
from attnbench.schema.cell import Workload

# inches: axis labels on the left, labels on the right of a panel, a panel, the gap between two
_LEFT, _RIGHT, _PANEL, _GAP = 0.62, 1.28, 1.80, 0.12
_TITLE, _HEAD, _AXIS, _FOOT = 0.36, 0.22, 0.36, 0.06
_LOWEST, _HIGHEST = 2.3, 6.0


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
    with style.applied():
        made = images(fidelity_figure(findings, members))
    return Plot(Workload.FIDELITY, Kind.FIDELITY.value, made, fidelity_caption(findings, members))


def _shown(findings: Findings, workload: Workload, kind: str) -> Quantity:
    if Kind(kind) is Kind.MEMORY:
        return quantity.memory(findings.counter, workload)
    return quantity.state() if Kind(kind) is Kind.STATE else quantity.time(workload)


def _plot(findings: Findings, workload: Workload, kind: str) -> Plot:
    shown = _shown(findings, workload, kind)
    with style.applied():
        picture = figure(findings, workload, shown)
        made = images(picture)
    return Plot(workload, kind, made, caption(findings, _of(findings, workload), shown))


def figure(findings: Findings, workload: Workload, shown: Quantity) -> Figure:
    """To be called within `style.applied()`."""
    members = [part for section in _of(findings, workload) for part in parts(section)]
    looks = style.looks(findings.labels)
    grid = {(s.conditions, s.causal): curves(findings, s, shown, looks) for s in members}
    rows, places = list(dict.fromkeys(s.conditions for s in members)), _places(members)
    layout = _Layout.of(list(grid.values()), *(1 + max(side) for side in zip(*places.values(), strict=True)))
    picture = Figure(figsize=(layout.width, layout.height))
    _title(picture, findings, f"{workload.value}: {shown.title}", rows, layout)
    for (conditions, causal), lines in grid.items():
        row, column = places[conditions, causal]
        beside = [key for key, place in places.items() if place[0] == row]
        lengths = sorted({N for s in members if (s.conditions, s.causal) in beside for N in s.lengths})
        place = _Place(row, column, panel.Range.of([grid[key] for key in beside], lengths))
        words = ("causal" if causal else "non-causal") + (f", {conditions}" if len(rows) > 1 else "")
        _panel(picture, lines, shown, layout, place, words)
    return picture


def _places(members: Sequence[Section]) -> dict[tuple[str, bool], tuple[int, int]]:
    """Row and column of each panel: conditions by masks; two by two where there is one mask alone, or most would be empty."""
    rows, columns = list(dict.fromkeys(s.conditions for s in members)), list(dict.fromkeys(s.causal for s in members))
    if len(columns) == 1 or 2 * len(members) <= 1.5 * len(rows) * len(columns):
        return {(s.conditions, s.causal): divmod(i, 2) for i, s in enumerate(members)}
    return {(s.conditions, s.causal): (rows.index(s.conditions), columns.index(s.causal)) for s in members}


def _of(findings: Findings, workload: Workload) -> list[Section]:
    return [section for section in findings.sections if section.workload is workload]


def _title(picture: Figure, findings: Findings, words: str, rows: Sequence[str], layout: "_Layout") -> None:
    device = f"{device_name(findings)} ({findings.run.surroundings.device})"
    second = f"{rows[0]}, {device}" if len(rows) == 1 else device
    letters = int(layout.width * 15)
    top = 1 - 0.04 / layout.height
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    picture.text(0.01, top, drawable(shorten(words, letters)), fontsize=style.FONT + 1, fontweight="bold", **place)
    picture.text(0.01, top - 0.15 / layout.height, drawable(shorten(second, letters)), color="#444444", **place)


@dataclass(frozen=True)
class _Layout:
    """Sizes in inches."""

    panel_height: float
    legend_height: float
    rows: int
    columns: int

    @classmethod
    def of(cls, panels: Sequence[Sequence[Curve]], rows: int, columns: int) -> "_Layout":
        """High enough for all labels beside a panel, up to a limit."""
        labels = max(sum(c.beside.count("\n") + 1.25 for c in panel_curves) for panel_curves in panels) * panel.LINE
        entries = max(len(panel_curves) for panel_curves in panels)
        return cls(min(max(_LOWEST, labels / 1.2), _HIGHEST), entries * panel.LINE * 1.06, rows, columns)

    @property
    def width(self) -> float:
        return _LEFT + self.columns * (_PANEL + _RIGHT) + (self.columns - 1) * _GAP

    @property
    def row(self) -> float:
        return _HEAD + self.panel_height + _AXIS + self.legend_height + _FOOT

    @property
    def height(self) -> float:
        return _TITLE + self.rows * self.row


@dataclass(frozen=True)
class _Place:
    row: int
    column: int
    span: panel.Range


def _panel(picture: Figure, lines: Sequence[Curve], shown: Quantity, layout: _Layout, place: _Place, words: str) -> None:
    left = _LEFT + place.column * (_PANEL + _RIGHT + _GAP)
    top = layout.height - _TITLE - place.row * layout.row - _HEAD
    w, h = layout.width, layout.height
    axes = picture.add_axes((left / w, (top - layout.panel_height) / h, _PANEL / w, layout.panel_height / h))
    panel.draw(axes, lines, place.span, shown, (_PANEL, layout.panel_height))
    axes.set_title(words, loc="left", pad=4)
    if place.column:
        axes.tick_params(labelleft=False)
    panel.legend(axes, lines, left=-0.15 if place.column else -0.25, below=-_AXIS / layout.panel_height)
