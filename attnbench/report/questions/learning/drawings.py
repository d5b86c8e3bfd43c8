"""The figure of drawings: what each method's model makes of images, a panel a method."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.conditions import device_name, machine, model_note
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.caption import panel_reasons, text
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.over_length import second_line
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import scaled
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.pixels import MOST, Mosaic, mosaic
from attnbench.report.questions.learning.untrained import failed_entries
from attnbench.report.questions.learning.words import by_length, training_notes, where
from attnbench.report.text.names import one_line

_WIDTH, _ROOM, _BESIDE = 2.6, 2.9, 0.76
"""Inches, with letters of 7 points: of a panel that has room, what one needs at least, and what stands beside one."""
_LINE = "#D55E00"
_MISSING = "no images were recorded"


@dataclass(frozen=True)
class _Shown:
    """One method of one section."""

    section: Section
    cell: CellSummary
    found: Mosaic


def drawings_wanted(sections: Sequence[Section]) -> list[Section]:
    """Those whose models were to draw."""
    return [s for s in sections if any(c.cell.training and c.cell.training.drawings for c in s.summaries)]


def drawings_board(findings: Findings, sections: Sequence[Section], sheet: Sheet) -> Board:
    """Of sections whose models were to draw; to be called within `style.applied`."""
    groups = [part for section in sections for part in by_length(section)]
    shown = [_Shown(group, cell, found) for group in groups for cell in group.summaries if (found := mosaic(cell))]
    across = 2 if sheet.room is None else max(1, int(sheet.room / _ROOM))
    tiles = [_tile(findings, each, divmod(i, across), several=len(groups) > 1) for i, each in enumerate(shown)]
    return Board(
        title="train: images given, completed and drawn",
        second=second_line(findings, list(dict.fromkeys(where(group) for group in groups))),
        tiles=tuple(tiles) or (Tile("", 0, 0, _nothing, ""),),
        entries=tuple(failed_entries(findings, groups, run_looks(findings), _lacks)),
        natural=(_WIDTH, _height(shown, sheet, across)),
    )


def _lacks(cell: CellSummary) -> str:
    wanted = cell.cell.training is not None and cell.cell.training.drawings > 0
    return (one_line(cell.fact("not_drawn")) or _MISSING) if wanted and mosaic(cell) is None else ""


def _height(shown: Sequence[_Shown], sheet: Sheet, across: int) -> float:
    """Of a panel that the pictures fill to its width."""
    width = _WIDTH if sheet.room is None else sheet.room / across - _BESIDE
    ratios = [each.found.pixels.shape[0] / each.found.pixels.shape[1] for each in shown]
    return width * max(ratios, default=0.5)


def _tile(findings: Findings, each: _Shown, place: tuple[int, int], *, several: bool) -> Tile:
    words = [findings.plot_names[each.cell.cell.label], *([where(each.section)] if several else [])]
    return Tile(", ".join(words), *place, partial(_draw, each.found), "")


def _draw(found: Mosaic, axes: Axes, _: tuple[float, float]) -> None:
    axes.imshow(found.pixels, interpolation="nearest", aspect="equal")
    axes.set_anchor("NW")
    axes.set_xticks([])
    axes.set_yticks(list(found.middles.values()), list(found.middles))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.add_collection(LineCollection(found.given_ends, colors=_LINE, linewidths=scaled(0.8), zorder=3), autolim=False)


def _first(cells: Sequence[CellSummary]) -> str:
    return f"the first of n = {max((s.replicates for s in cells if s.ok), default=0)} seeds"


def _nothing(axes: Axes, _: tuple[float, float]) -> None:
    axes.set_axis_off()
    panel.said(axes, "nothing was drawn")


def drawings_caption(findings: Findings, sections: Sequence[Section]) -> str:
    """The text beside the figure."""
    cells = [summary for section in sections for summary in section.summaries]
    wanted = max((s.cell.training.drawings for s in cells if s.cell.training), default=0)
    some = f" The first {MOST} of {wanted} of each." if wanted > MOST else ""
    return text(
        [
            f"train: images of each method's model after its last update, {_first(cells)}. {device_name(findings)}.",
            "given: images that were held out; completed: the half above the line was given, the other drawn; drawn: "
            f"from nothing.{some} Levels from black to white, nearest neighbour.",
            *panel_reasons(sections),
            *filter(None, [model_note(cells)]),
            *training_notes(cells),
            machine(findings),
        ]
    )
