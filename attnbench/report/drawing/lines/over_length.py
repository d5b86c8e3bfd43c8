"""Quantities over length: a column per mask, a row per set of conditions; of several quantities, a column for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from attnbench.analyze.sections import Section
from attnbench.report.conditions import device_name
from attnbench.report.drawing.beside import needed
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.curve import Curve, curves
from attnbench.report.drawing.lines.parts import parts
from attnbench.report.drawing.lines.quantity import Quantity
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.findings import Findings


@dataclass(frozen=True)
class _Panel:
    section: Section
    shown: Quantity
    lines: tuple[Curve, ...]
    row: int
    column: int

    @property
    def scale(self) -> tuple[int, str]:
        """Panels of one row that show the same have one."""
        return self.row, self.shown.title


def over_length(findings: Findings, sections: Sequence[Section], shown: Sequence[Quantity], sheet: Sheet) -> Board:
    """Of sections of one workload; to be called within `style.applied`."""
    members = [part for section in sections for part in parts(section, sheet.methods)]
    panels = _panels(findings, members, shown)
    rows = list(dict.fromkeys(section.conditions for section in members))
    workload, several = members[0].workload.value, len(shown) > 1
    return Board(
        title=workload if several else f"{workload}: {shown[0].title}",
        second=second_line(findings, rows),
        tiles=tuple(_tile(each, panels, heading(each.section, rows, titled=sheet.titled)) for each in panels),
        named=several,
    )


def second_line(findings: Findings, conditions: Sequence[str]) -> str:
    """Where it was measured; and the conditions, if all panels have them in common."""
    device = f"{device_name(findings)} ({findings.run.surroundings.device})"
    return f"{conditions[0]}, {device}" if len(conditions) == 1 else device


def heading(section: Section, rows: Sequence[str], *, titled: bool) -> str:
    """Of a panel: what the title of the figure does not say."""
    workload = [] if titled else [section.workload.value]
    return ", ".join([*workload, section.mask, *([section.conditions] if len(rows) > 1 else [])])


def _panels(findings: Findings, members: Sequence[Section], shown: Sequence[Quantity]) -> list[_Panel]:
    looks = run_looks(findings)
    places = where(members) if len(shown) == 1 else [(i, 0) for i in range(len(members))]
    return [
        _Panel(section, each, tuple(curves(findings, section, each, looks)), row, column + number)
        for section, (row, column) in zip(members, places, strict=True)
        for number, each in enumerate(shown)
    ]


def where(members: Sequence[Section]) -> list[tuple[int, int]]:
    """Row and column of each: conditions by masks; two by two where there is one mask alone, or most would be empty."""
    rows, columns = list(dict.fromkeys(s.conditions for s in members)), list(dict.fromkeys(s.causal for s in members))
    if len(columns) == 1 or 2 * len(members) <= 1.5 * len(rows) * len(columns):
        return [divmod(i, 2) for i in range(len(members))]
    return [(rows.index(s.conditions), columns.index(s.causal)) for s in members]


def _tile(own: _Panel, panels: Sequence[_Panel], words: str) -> Tile:
    beside = [each for each in panels if each.scale == own.scale]
    lengths = sorted({N for each in beside for N in each.section.lengths})
    span = panel.Range.of([each.lines for each in beside], lengths, own.shown.level)
    return Tile(
        words=words,
        row=own.row,
        column=own.column,
        draw=partial(_draw, own, span),
        name=own.shown.title,
        scale=own.scale,
        entries=tuple((partial(panel.sample, line.look), line.legend) for line in own.lines),
        beside=sum(needed(line.beside) for line in own.lines),
    )


def _draw(own: _Panel, span: panel.Range, axes: Axes, inches: tuple[float, float]) -> None:
    panel.draw(axes, own.lines, span, own.shown, inches)
