"""The figure of learning curves: held-out loss and accuracy against updates and against the time that they took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.learning_curve import LOSSES, learning_curve
from attnbench.analyze.sections import Section
from attnbench.report.conditions import backends, device_name, machine, model_note, warnings
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.caption import panel_reasons, text
from attnbench.report.drawing.legend import Entry
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.over_length import second_line
from attnbench.report.drawing.lines.parts import parts
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import Look
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.curves.panel import Learner, Panel, dotted
from attnbench.report.questions.learning.curves.scale import Height, Way
from attnbench.report.questions.learning.untrained import failed_entries
from attnbench.report.questions.learning.words import by_length, chance, chance_note, heads, training_notes
from attnbench.schema.outcome import CURVE_ACCURACY

_NAMES = {LOSSES: "held-out loss, nats", CURVE_ACCURACY: "held-out accuracy"}
_CHANCES = {LOSSES: "loss", CURVE_ACCURACY: "accuracy"}
_ROOM = 2.2
"""Inches that a panel needs, with letters of 7 points: two stand side by side, or one."""


@dataclass(frozen=True)
class _Group:
    """The methods of one section of one length."""

    section: Section
    number: int
    head: str

    def metrics(self) -> list[str]:
        """Loss; and accuracy, where any method has it."""
        shown = any(learning_curve(cell, CURVE_ACCURACY) for cell in self.section.summaries)
        return [LOSSES, *([CURVE_ACCURACY] if shown else [])]

    def learners(self, metric: str, looks: dict[str, Look]) -> tuple[Learner, ...]:
        found = ((cell, learning_curve(cell, metric)) for cell in self.section.summaries)
        return tuple(Learner(looks[cell.cell.label], moments) for cell, moments in found if moments)

    def chance(self, metric: str) -> float | None:
        levels = (chance(cell, _CHANCES[metric]) for cell in self.section.summaries)
        return next((level for level in levels if level is not None), None)


def curves_board(findings: Findings, sections: Sequence[Section], sheet: Sheet) -> Board:
    """Of sections of training; to be called within `style.applied`."""
    common, groups = _groups(sections, sheet)
    looks = run_looks(findings)
    one_below = sheet.room is not None and sheet.room < 2 * _ROOM
    firsts = accumulate((len(group.metrics()) for group in groups), initial=0)
    tiles = [tile for group, first in zip(groups, firsts, strict=False) for tile in _tiles(group, first, looks, one_below)]
    accuracy = any(tile.name == _NAMES[CURVE_ACCURACY] for tile in tiles)
    return Board(
        title=f"train: held-out loss{' and accuracy' if accuracy else ''} while it learns",
        second=second_line(findings, [common]),
        tiles=tuple(tiles),
        entries=_entries(findings, groups, looks),
        natural=(2.5, 1.6),
        named=True,
    )


def _groups(sections: Sequence[Section], sheet: Sheet) -> tuple[str, list[_Group]]:
    """With the conditions that all have in common."""
    each = [part for section in sections for one in by_length(section) for part in parts(one, sheet.methods)]
    common, words = heads(each)
    return common, [_Group(section, number, head) for number, (section, head) in enumerate(zip(each, words, strict=True))]


def _tiles(group: _Group, first: int, looks: dict[str, Look], one_below: bool) -> list[Tile]:
    """A row for each metric, from `first` on; without room for two every panel says what it is of."""
    found = []
    for place, metric in enumerate(group.metrics()):
        learners, level = group.learners(metric, looks), group.chance(metric)
        curves = [learner.moments for learner in learners]
        height = Height.of(metric, curves, level)
        for timed, way in enumerate((Way.of_updates(curves), Way.of_time(curves))):
            shown = Panel(learners, way, bool(timed), height, level)
            scale = (group.number, metric)
            # what stands beside it is of the same section
            words = "" if timed and not one_below else group.head
            found.append(Tile(words, first + place, timed, shown.draw, _NAMES[metric], scale))
    return found


def _entries(findings: Findings, groups: Sequence[_Group], looks: dict[str, Look]) -> tuple[Entry, ...]:
    """Methods that have a curve, chance, and those that failed with why."""
    sections = [group.section for group in groups]
    drawn = dict.fromkeys(s.cell.label for section in sections for s in section.summaries if learning_curve(s))
    found: list[Entry] = [(partial(panel.sample, looks[label]), findings.plot_names[label]) for label in drawn]
    if any(group.chance(LOSSES) is not None for group in groups):
        found.append((dotted, "chance"))
    return (*found, *failed_entries(findings, sections, looks, _lacks))


def _lacks(summary: CellSummary) -> str:
    return "" if learning_curve(summary) else "no curve was recorded"


def curves_caption(findings: Findings, sections: Sequence[Section]) -> str:
    """The text beside the figure."""
    cells = [summary for section in sections for summary in section.summaries]
    return text(
        [
            "train: loss of held-out sequences (nats per judged token), and accuracy where there is a right answer, against "
            f"updates and against the time of training, in which nothing is judged. {device_name(findings)}.",
            *_seeds(len(s.series.get(LOSSES, {})) for s in cells if s.ok),
            *filter(None, [chance_note(cells)]),
            *panel_reasons(sections),
            *filter(None, [model_note(cells)]),
            *training_notes(cells),
            *warnings(findings, cells),
            *backends(findings, cells),
            machine(findings),
        ]
    )


def _seeds(counts: Iterable[int]) -> list[str]:
    """What line and band are."""
    known = sorted(set(counts))
    if not known:
        return ["No method was trained to its end."]
    n = f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0])
    if n == "1":
        return ["n = 1 seed: no band."]
    return [f"Line: median of n = {n} seeds; band: smallest and largest seed; time: median of the seeds. Dotted: chance."]
