"""The picture of crossovers: the ratio of two methods against length, a panel a section, with the interval of each crossing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnbench.analyze.crossover import Crossing
from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import Versus
from attnbench.report.drawing import grid, style
from attnbench.report.drawing.board import Board, Tile
from attnbench.report.drawing.images import images
from attnbench.report.drawing.lines import panel
from attnbench.report.drawing.lines.over_length import second_line
from attnbench.report.drawing.looks import run_looks
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.drawing.style import Look, scaled
from attnbench.report.drawing.ticks import factor_ticks
from attnbench.report.drawing.words import width
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.words import rounded
from attnbench.report.text.names import drawable
from attnbench.report.text.statuses import short

_COLUMNS = 2
_ROW = 0.125
"""Inches for letters of 7 points: a row of lengths."""
_ROWS = 5


def crossover_plot(findings: Findings, compared: Sequence[Versus], form: str) -> bytes:
    """As png, svg or pdf; the same run gives the same bytes."""
    with style.applied():
        (picture,) = grid.figures(crossover_board(findings, compared), FOLDER)
        return images(picture, (form,))[form]


def crossover_board(findings: Findings, compared: Sequence[Versus], *, titled: bool = True) -> Board:
    """A tile for each section that has pairs; to be called within `style.applied`."""
    workloads = dict.fromkeys(versus.section.workload.value for versus in compared)
    alone = titled and len(workloads) == 1
    metric, over = compared[0].metric, _common(findings, compared)
    about = f" ({metric.about})" if metric.about else ""
    what = f"{metric.name}{about} over that of {over}" if over else f"ratio of {metric.name}{about}"
    panels = [_Panel(findings, s, members, pairs=not over) for s in findings.sections if (members := _of(compared, s))]
    looks = run_looks(findings)
    return Board(
        title=f"{next(iter(workloads))}: {what}" if alone else what,
        second=f"below 1 {'a method' if over else 'the first'} is ahead; bars: 95 %; {second_line(findings, [])}",
        tiles=tuple(_tile(each, looks, what, divmod(i, _COLUMNS), alone=alone) for i, each in enumerate(panels)),
        natural=(2.7, 1.9),
    )


def _of(compared: Iterable[Versus], section: Section) -> list[Versus]:
    return [versus for versus in compared if versus.section is section]


def _common(findings: Findings, compared: Sequence[Versus]) -> str:
    """What all are compared with; empty where that is not the same in all panels."""
    overs = {versus.over for versus in compared}
    return findings.plot_names[compared[0].over] if len(overs) == 1 else ""


@dataclass(frozen=True)
class _Panel:
    findings: Findings
    section: Section
    members: list[Versus]
    pairs: bool
    """Whether entries name both methods."""

    @cached_property
    def points(self) -> dict[str, dict[int, Ratio]]:
        """By method and length."""
        return {versus.of: _ratios(versus) for versus in self.members}


def _tile(own: _Panel, looks: dict[str, Look], what: str, place: tuple[int, int], *, alone: bool) -> Tile:
    """`alone`: the title of the figure says the workload."""
    entries = [(partial(panel.sample, looks[v.of]), _name(own.findings, v, whole=own.pairs)) for v in own.members]
    words = f"{own.section.mask}, {own.section.conditions}" if alone else own.section.title
    return Tile(words, *place, partial(_draw, own, looks), what, entries=tuple(entries))


def _draw(own: _Panel, looks: dict[str, Look], axes: Axes, inches: tuple[float, float]) -> None:
    limits = panel.over_lengths(axes, own.section.lengths, inches[0], 1.15)
    notes = _notes(own, looks, limits, inches[0])
    row = scaled(_ROW) / inches[1]
    one = _scales(axes, own, row * (1 + max((note.row for note in notes), default=-1)))
    for versus in own.members:
        _line(axes, own.points[versus.of], looks[versus.of])
        for crossing in versus.crossover.crossings:
            _bar(axes, crossing, looks[versus.of])
    for note in notes:
        _write(axes, note, one, row)
    if not any(own.points.values()):
        panel.said(axes, "nothing to compare")


def _name(findings: Findings, versus: Versus, *, whole: bool) -> str:
    """The method, or both; where nothing can be drawn, why not."""
    names = findings.plot_names[versus.of] + (f" / {findings.plot_names[versus.over]}" if whole else "")
    statuses = dict.fromkeys(short(status) for gap in versus.gaps for status in (gap.of, gap.over) if status)
    return names if versus.crossover.lengths else drawable(f"{names}: {', '.join(statuses)}")


def _ratios(versus: Versus) -> dict[int, Ratio]:
    """By length, of those that were compared."""
    at, metric = versus.section.at, versus.metric
    return {N: ratio(metric.of(at(versus.over, N)), metric.of(at(versus.of, N)), paired=True) for N in versus.crossover.lengths}


def _ends(found: Ratio) -> tuple[float, float]:
    """Of its interval, unless that of two or three replicates reaches out of all proportion."""
    if found.interval is None or found.interval.high > 4 * found.value:
        return found.value, found.value
    return found.interval.low, found.interval.high


def _scales(axes: Axes, own: _Panel, strip: float) -> float:
    """With a strip left free at the top, a share of the height. Gives the height of the line at 1, as a share."""
    ends = [end for ratios in own.points.values() for found in ratios.values() for end in _ends(found)]
    low, high = min([1 / 1.3, *ends]) / 1.2, max([1.3, *ends]) * 1.2
    high = low * (high / low) ** (1 / (1 - strip))
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    shares = factor_ticks(low, high)
    axes.set_yticks([value for value, _ in shares], [text for _, text in shares])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.axhline(1.0, color=style.soft(), linewidth=scaled(0.8), zorder=1)
    return panel.share(1.0, (low, high))


def _line(axes: Axes, points: dict[int, Ratio], look: Look) -> None:
    axes.add_artist(panel.sample(look, list(points), [found.value for found in points.values()], zorder=3))
    for N, found in points.items():
        axes.add_artist(Line2D([N, N], _ends(found), color=look.color, linewidth=scaled(0.9), zorder=2))


def _bar(axes: Axes, crossing: Crossing, look: Look) -> None:
    """The interval; without one the bracket, faint."""
    known = crossing.interval is not None
    low, high = (crossing.interval.low, crossing.interval.high) if crossing.interval else crossing.bracket
    thick: Any = {"linewidth": scaled(5), "alpha": 0.45 if known else 0.18, "solid_capstyle": "butt"}
    axes.add_artist(Line2D([low, high], [1, 1], color=look.color, zorder=4, **thick))


@dataclass(frozen=True)
class _Note:
    """N of a crossing that has an interval: where it is written in the strip at the top."""

    N: float
    look: Look
    left: float
    """Share of the panel's width."""
    row: int

    @property
    def text(self) -> str:
        return rounded(self.N)


def _notes(own: _Panel, looks: dict[str, Look], limits: tuple[float, float], inches: float) -> list[_Note]:
    """By rising N, one below the other where they would meet; what is beyond the last row stands in the caption."""
    known = [(c.length, looks[v.of]) for v in own.members for c in v.crossover.crossings if c.interval is not None]
    found, ends = [], list[float]()
    for N, look in sorted(known, key=lambda mark: mark[0]):
        wide = width(rounded(N))
        left = min(panel.share(N, limits) * inches + scaled(0.03), inches - wide)
        row = next((i for i, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + wide + scaled(0.06)]
        found.append(_Note(N, look, left / inches, row))
    return [note for note in found if note.row < _ROWS]


def _write(axes: Axes, note: _Note, one: float, row: float) -> None:
    """With a dotted line down to the crossing, at this share of the height."""
    y = 1 - (note.row + 0.5) * row
    dots: Any = {"linestyle": ":", "linewidth": scaled(0.8), "alpha": 0.8, "zorder": 2}
    axes.add_artist(
        Line2D([note.N] * 2, [one, y - row / 2], transform=axes.get_xaxis_transform(), color=note.look.color, **dots)
    )
    axes.text(note.left, y, note.text, transform=axes.transAxes, va="center", color=note.look.color, zorder=5)
