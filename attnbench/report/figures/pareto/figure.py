"""The Pareto figure: what a method loses against what it costs, and which methods no other beats in both."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.pareto import Candidate, front, surely_beaten
from attnbench.report.conditions import device_name, machine, model_note
from attnbench.report.drawing import style
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.caption import text
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.over_length import second_line
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import FONT, Look, scaled
from attnbench.report.drawing.ticks import factor_ticks, spaced
from attnbench.report.drawing.words import width
from attnbench.report.figures.kinds import CannotDrawError, Drawing
from attnbench.report.figures.pareto.naming import Box, Named, names_placed
from attnbench.report.figures.pareto.tradeoffs import Tradeoff, tradeoffs
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.notes import error_note, gradient_note, recall_note, rounding_note, score_notes
from attnbench.report.questions.learning.table import seeds_notes
from attnbench.report.questions.learning.words import chance_note, task_of, training_notes
from attnbench.report.text.names import drawable, shorten
from attnbench.report.text.statuses import reasons, short
from attnbench.schema.cell import Workload
from attnbench.schema.units import length

_SIZE, _LETTERS = 4.2, 26
# inches for letters of 7 points: a letter, a line, half a marker
_LETTER, _LINE, _REACH = 0.06, FONT * 1.2 / 72, 0.04
_FAINT, _LESS = 0.35, 0.8
_PARAMETER = re.compile(r"(?<=[( ])\w+=")
_LEAST = 1e-3
"""Of the vertical axis: where all is exact but for rounding."""
_THINNEST = 0.02
"""Of the largest loss: what the axis spans at least."""
_FAR = 0.5
"""Of the largest loss: where all are farther from 0 than that, the axis need not begin there."""


def pareto(findings: Findings, _: Sheet) -> list[Drawing]:
    """One figure: a row for each loss of each section that has a quality, a column for each cost."""
    rows = tradeoffs(findings)
    if not rows:
        raise CannotDrawError(
            "no cell has a quality, or none that has one has a cost; the suite would say workloads: [forward, fidelity], "
            "[forward, numerics] or [train, generate]"
        )
    looks = run_looks(findings)
    conditions = list(dict.fromkeys(row[0].section.conditions for row in rows))
    tiles = [_tile(_Panel(each, _reach(row), looks), place, id(row), conditions) for row, each, place in _places(rows)]
    labels = dict.fromkeys(candidate.label for row in rows for each in row for candidate in each.candidates)
    entries = tuple((partial(panel.mark, looks[label], _SIZE), findings.plot_names[label]) for label in labels)
    title, second = "what is lost, and what it costs", second_line(findings, conditions)
    board = Board(title, second, tuple(tiles), entries, natural=(2.4, 2.1), named=True)
    return [Drawing("", board, _caption(findings, rows))]


def _places(rows: Sequence[list[Tradeoff]]) -> list[tuple[list[Tradeoff], Tradeoff, tuple[int, int]]]:
    """Rows and columns as they are; rows of one panel each stand two by two."""
    if all(len(row) == 1 for row in rows):
        return [(row, row[0], divmod(i, 2)) for i, row in enumerate(rows)]
    return [(row, each, (i, j)) for i, row in enumerate(rows) for j, each in enumerate(row)]


def _reach(row: Sequence[Tradeoff]) -> tuple[float, float]:
    """From 0 to the largest loss of a row, whose panels share their vertical axis; or from where all of them are far from 0."""
    ends = [end for each in row for candidate in each.candidates for end in candidate.loss.ends]
    if row[0].loss.logarithmic:
        rising = [end for end in ends if end > 0]
        return min(rising, default=1.0), max(rising, default=10.0)
    low, top = min(ends, default=0.0), max([_LEAST, *ends])
    return (low if low > _FAR * top else 0.0), top


def _tile(drawn: "_Panel", place: tuple[int, int], row: int, conditions: Sequence[str]) -> Tile:
    own = drawn.own
    task = [task_of(own.section)] if own.section.workload is Workload.TRAIN else []
    words = [*task, own.section.mask, *([own.section.conditions] if len(conditions) > 1 else []), f"N = {length(own.N)}"]
    return Tile(", ".join(words), *place, partial(_draw, drawn), own.loss.name, scale=(place[0], row))


@dataclass(frozen=True)
class _Panel:
    own: Tradeoff
    reach: tuple[float, float]
    """Of the losses of the row."""
    looks: Mapping[str, Look]

    @property
    def across(self) -> tuple[float, float]:
        """Limits of the horizontal axis."""
        ends = [end for c in self.own.candidates for end in c.cost.ends]
        room = max(1.25, (max(ends) / min(ends)) ** 0.08)
        return min(ends) / room, max(ends) * room

    @property
    def up(self) -> tuple[float, float]:
        """Limits of the vertical axis; a loss of 0 stands clear of the edge."""
        low, top = self.reach
        if self.own.loss.logarithmic:
            room = max(1.25, (top / low) ** 0.1)
            return low / room, top * room
        room = max(top - low, _THINNEST * top)
        return low - 0.06 * room, top + 0.12 * room

    def inches(self, x: float, y: float, size: tuple[float, float]) -> tuple[float, float]:
        """Of a cost and a loss, from the panel's lower left corner."""
        (left, right), (low, high) = self.across, self.up
        up = math.log(y / low) / math.log(high / low) if self.own.loss.logarithmic else (y - low) / (high - low)
        return math.log(x / left) / math.log(right / left) * size[0], up * size[1]

    def steps(self, best: Sequence[Candidate]) -> list[tuple[float, float]]:
        """What the front allows: from the top down to the cheapest, from each to the next, and from the best to the right."""
        corners = [(best[0].cost.value, self.up[1])]
        for candidate in best:
            x = candidate.cost.value
            corners += [(x, corners[-1][1]), (x, candidate.loss.value)]
        return [*corners, (self.across[1], best[-1].loss.value)]

    def lines(self, best: Sequence[Candidate], size: tuple[float, float]) -> list[Box]:
        """In inches, all that no name may cross: steps and bars."""
        corners = self.steps(best)
        found = list(pairwise(corners))
        for c in self.own.candidates:
            (left, right), (low, high) = c.cost.ends, c.loss.ends
            low, x, y = max(low, self.up[0]), c.cost.value, c.loss.value
            found += [((left, y), (right, y)), ((x, low), (x, high))]
        placed = [(self.inches(*a, size), self.inches(*b, size)) for a, b in found]
        return [(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])) for a, b in placed]


def _draw(drawn: _Panel, axes: Axes, inches: tuple[float, float]) -> None:
    _scales(axes, drawn, inches[0])
    candidates = drawn.own.candidates
    best = front(candidates)
    _steps(axes, best, drawn)
    for candidate in candidates:
        alpha = 1.0 if candidate in best else _FAINT if surely_beaten(candidate, candidates) else _LESS
        _point(axes, candidate, drawn.looks[candidate.label], alpha)
    _names(axes, drawn, best, inches)


def _scales(axes: Axes, drawn: _Panel, inches: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(*drawn.across)
    axes.set_ylim(*drawn.up)
    ticks = spaced(drawn.own.cost.ticks(*drawn.across), *drawn.across, inches, scaled(_LETTER))
    axes.set_xticks([value for value, _ in ticks], [words for _, words in ticks])
    if drawn.own.loss.logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(*drawn.up)
        up = [value for value, _ in factor_ticks(*drawn.up)]
    else:
        up = [value for value in MaxNLocator(5).tick_values(*drawn.reach) if max(0.0, drawn.up[0]) <= value <= drawn.up[1]]
    axes.set_yticks(up, [f"{value:.3g}" for value in up])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.set_xlabel(drawn.own.cost.name, labelpad=scaled(1))


def _steps(axes: Axes, best: Sequence[Candidate], drawn: _Panel) -> None:
    x, y = zip(*drawn.steps(best), strict=True)
    axes.plot(x, y, "-", color=style.soft(), linewidth=scaled(0.8), alpha=0.8, zorder=1.5)


def _point(axes: Axes, candidate: Candidate, look: Look, alpha: float) -> None:
    bar: Any = {"color": look.color, "linewidth": scaled(0.9), "alpha": alpha, "zorder": 3}
    x, y = candidate.cost.value, candidate.loss.value
    axes.plot(candidate.cost.ends, [y] * 2, "-", **bar)
    axes.plot([x] * 2, candidate.loss.ends, "-", **bar)
    axes.add_artist(panel.mark(look, _SIZE, [x], [y], alpha=alpha, zorder=4))


def _names(axes: Axes, drawn: _Panel, best: Sequence[Candidate], inches: tuple[float, float]) -> None:
    """Of the front first; what has no room is in the legend."""
    order = [*best, *(candidate for candidate in drawn.own.candidates if candidate not in best)]
    names = [_short(candidate.label) for candidate in order]
    places = [drawn.inches(candidate.cost.value, candidate.loss.value, inches) for candidate in order]
    points = [Named(*place, width(name)) for place, name in zip(places, names, strict=True)]
    corners = names_placed(points, inches, scaled(_LINE), scaled(_REACH), drawn.lines(best, inches))
    for name, corner in zip(names, corners, strict=True):
        if corner is not None:
            place: Any = {"transform": axes.transAxes, "ha": "left", "va": "bottom", "parse_math": False, "zorder": 5}
            axes.text(corner[0] / inches[0], corner[1] / inches[1], name, color=style.soft(), **place)


def _short(label: str) -> str:
    """`lsh.reformer(64, 4)`: the values of the parameters stand for them; the legend has it in full."""
    return drawable(shorten(_PARAMETER.sub("", label), _LETTERS))


def _caption(findings: Findings, rows: Sequence[Sequence[Tradeoff]]) -> str:
    sections = {id(row[0].section): row[0].section for row in rows}.values()
    cells = [summary for section in sections for summary in section.summaries]
    panels = [each for row in rows for each in row]
    linear = [row for row in rows if not row[0].loss.logarithmic]
    far = ["The vertical axis begins at 0 but where all are far from it."] if any(_reach(row)[0] > 0 for row in linear) else []
    found = [
        f"pareto: {', '.join(dict.fromkeys(each.loss.name for each in panels))} against "
        f"{'; '.join(dict.fromkeys(each.cost.name for each in panels))}; of both less is better. {device_name(findings)}.",
        "Steps: the front, which no method beats in both. Faint: another method is at least as good in both and better in one, "
        "by the intervals.",
        "Bars: the range of the replicates, as said below; a count (bytes, FLOPs) has none.",
        *far,
        *dict.fromkeys(words for each in panels for words in _missing(findings, each)),
        *_about_fidelity(findings, [cell for cell in cells if cell.cell.workload is Workload.FIDELITY]),
        *_about_numerics(findings, [cell for cell in cells if cell.cell.workload is Workload.NUMERICS]),
        *_about_training(findings, [cell for cell in cells if cell.cell.workload is Workload.TRAIN]),
    ]
    return text(list(dict.fromkeys(found)))


def _about_fidelity(findings: Findings, cells: Sequence[CellSummary]) -> list[str]:
    if not cells:
        return []
    recall = f"{recall_note(cells)} One that gives every key some weight misses nothing by this measure."
    return [error_note(), recall, *score_notes(findings, cells)]


def _about_numerics(findings: Findings, cells: Sequence[CellSummary]) -> list[str]:
    return [rounding_note(), gradient_note(), *score_notes(findings, cells)] if cells else []


def _about_training(findings: Findings, cells: Sequence[CellSummary]) -> list[str]:
    """What the loss is, which model learnt how, and what cost it is set against."""
    if not cells:
        return []
    about = "Loss, accuracy and bits are those of held-out sequences after the last update."
    cost = "What generating costs is that of an untrained model of the same shape: speed knows nothing of the weights."
    more = [cost] if any(s.cell.workload is Workload.GENERATE for s in findings.summaries) else []
    notes = [about, chance_note(cells), *more, *seeds_notes(cells), model_note(cells), *training_notes(cells)]
    return [*filter(None, notes), *reasons(cells), machine(findings)]


def _missing(findings: Findings, own: Tradeoff) -> list[str]:
    """Methods that have no point, with the status that kept them from one."""
    drawn = {candidate.label for candidate in own.candidates}
    left = [label for label in own.section.series if label not in drawn]
    words = [f"{findings.names[label]} ({_why(own, own.section.at(label, own.N))})" for label in left]
    return [f"No point for {own.cost.name} at N = {length(own.N)}: {', '.join(words)}."] if words else []


def _why(own: Tradeoff, cell: CellSummary | None) -> str:
    """Of the cell that has no quality, or of the one that has no cost."""
    asked = (cell, own.cost.beside(cell)) if cell else ()
    return next((short(each.status) for each in asked if each and not each.ok), "no such figure")
