"""A method in a panel: a line over length with its range, or points of a scatter; what was not measured is noted above."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import Quantity, Unit
from attnbench.analyze.scaling import exponent
from attnbench.analyze.sections import Section, grouped, stops
from attnbench.analyze.statistics import Estimate
from attnbench.report.conditions import device_name, on_each_device
from attnbench.report.drawing.panels import Panel, named
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import FONT, Look, run_looks, said, scaled, soft
from attnbench.report.drawing.ticks import lengths_across, wide
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import heading
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.units import length

_MARKER = 4.2
"""Points of a marker in a scatter, and of its sample in the legend."""


@dataclass(frozen=True)
class Plotted:
    """A figure as a curve: how it is read off a cell, and the unit of its axis."""

    title: str
    read: Callable[[CellSummary], Estimate | None]
    unit: Unit
    fitted: Quantity | None = None
    """The figure by which the legend says how a curve grows."""
    level: float | None = None
    """Where a line is drawn across: at 1 of a ratio."""

    @classmethod
    def of(cls, quantity: Quantity, workload: Workload) -> "Plotted":
        """Plot one figure of the cells of a workload."""
        return cls(heading(quantity, workload), quantity.estimate, quantity.unit, quantity)

    def points(self, series: Sequence[CellSummary]) -> dict[int, Estimate]:
        """Return the points of one method by N, rising, without those at 0, which has no place on a logarithmic axis.

        A range that reaches down to 0, or is as narrow as rounding, is not drawn: axes cannot be fitted to it.
        """
        found = ((cell.cell.problem.N, self.read(cell)) for cell in series)
        return {
            N: each if 0 < each.interval.low < each.interval.high * (1 - 1e-9) else Estimate.exact(each.value)
            for N, each in found
            if each is not None and each.value > 0
        }

    def zeros(self, series: Sequence[CellSummary]) -> list[int]:
        """Return the lengths at which a method is at 0: its line breaks there."""
        found = ((cell.cell.problem.N, self.read(cell)) for cell in series)
        return [N for N, each in found if each is not None and each.value <= 0]


def beyond(points: Mapping[int, Estimate], N: int) -> float | None:
    """Return where the line through the two nearest points would be at N, in logarithms; None without a point."""
    near = sorted(points, key=lambda at: abs(math.log(at / N)))[:2]
    if len(near) < 2:
        return points[near[0]].value if near else None
    (x0, y0), (x1, y1) = ((math.log(at), math.log(points[at].value)) for at in near)
    return math.exp(y0 + (y1 - y0) / (x1 - x0) * (math.log(N) - x0))


def over_length(findings: Findings, sections: Sequence[Section], shown: Sequence[Plotted], sheet: Sheet) -> list[Panel]:
    """Return a panel for each section and figure: masks or figures side by side, conditions below each other."""
    members = [part for section in sections for part in parts(section, sheet.methods)]
    looks, conditions = run_looks(findings), list(dict.fromkeys(section.conditions for section in members))
    alone = len(members) * len(shown) == 1

    def panel(section: Section, plotted: Plotted, row: int, column: int) -> Panel:
        names = {}
        for label, series in section.series.items():
            if sheet.failures or plotted.points(series):
                # one panel has room in the legend to say how its curves grow; of several each has its own exponents
                fit = exponent(series, plotted.fitted) if alone and plotted.fitted else None
                names[label] = findings.plot_names[label] + ("" if fit is None else f" N^{fit.value:z.2f}")

        def draw(axes: Axes) -> float:
            lengths_across(axes, section.lengths)
            for label, name in names.items():
                series = section.series[label]
                curve(axes, plotted.points(series), looks[label], name, plotted.zeros(series))
            if not any(plotted.points(series) for series in section.series.values()):
                said(axes, "nothing was measured")
            elif plotted.level is not None:
                axes.axhline(plotted.level, color=soft(), linewidth=scaled(0.8), zorder=1)
            return gutter(axes, failures(section, looks)) if sheet.failures else 0.0

        head = heading_of(section, conditions, titled=sheet.titled)
        return Panel(head, draw, row, column, plotted.title, plotted.unit, (row, plotted.title), tuple(names.values()))

    places = where(members) if len(shown) == 1 else [(row, 0) for row in range(len(members))]
    return [
        panel(section, plotted, row, column + number)
        for section, (row, column) in zip(members, places, strict=True)
        for number, plotted in enumerate(shown)
    ]


def curve(axes: Axes, points: Mapping[int, Estimate], look: Look, name: str, gaps: Sequence[int]) -> None:
    """Draw one method: its line, broken at `gaps`, its band, and a bar at each point, which shows where there is no band."""
    heights = {N: each.value for N, each in points.items()} | dict.fromkeys(gaps, math.nan)
    axes.plot(sorted(heights), [heights[N] for N in sorted(heights)], label=named(name), zorder=3, **look.drawn)
    ranged = [(N, *each.ends) for N, each in points.items() if not each.is_exact]
    if ranged:
        N, low, high = zip(*ranged, strict=True)
        axes.fill_between(N, low, high, color=look.color, alpha=0.2, linewidth=0, zorder=2)
        axes.vlines(N, low, high, color=look.color, linewidth=scaled(0.8), zorder=2.9)


def points(
    axes: Axes,
    pairs: Sequence[tuple[Estimate, Estimate]],
    look: Look,
    name: str,
    *,
    alpha: float = 1.0,
    sizes: Sequence[float] = (),
    joined: bool = False,
) -> None:
    """Draw the cells of one method; the first of them brings its name into the legend, and `sizes` are points at 7 points."""
    bars: Any = {"color": look.color, "linewidth": scaled(0.9), "alpha": alpha, "zorder": 3}
    for x, y in pairs:
        axes.plot(x.ends, [y.value] * 2, "-", **bars)
        axes.plot([x.value] * 2, y.ends, "-", **bars)
    if joined:
        path: Any = {"color": look.color, "linestyle": look.line, "alpha": 0.8, "zorder": 2}
        axes.plot([x.value for x, _ in pairs], [y.value for _, y in pairs], linewidth=scaled(0.8), **path)
    for number, (x, y) in enumerate(pairs):
        size = scaled(sizes[number] if sizes else _MARKER)
        axes.plot([x.value], [y.value], markersize=size, alpha=alpha, zorder=4, **look.marked)
    # the sample in the legend is as large and as dark for all
    sample = look.drawn if joined else look.marked
    axes.plot([], [], markersize=scaled(_MARKER), label=named(name), **sample)


@dataclass(frozen=True)
class Note:
    """Words above a panel at a length, and the markers of the methods that they are about."""

    N: float
    """0: at the left edge."""
    words: str
    looks: tuple[Look, ...]
    at: str = ""
    """What the words lack where they do not stand at their length."""


def failures(section: Section, looks: dict[str, Look]) -> list[Note]:
    """Return from where on which methods failed how."""
    found: dict[tuple[float, str], list[Look]] = {}
    for label, series in section.series.items():
        for status, lengths in stops(series).items():
            first = 0 if len(lengths) == len(series) else lengths[0]
            found.setdefault((first, short(status)), []).append(looks[label])
    return [Note(N, words, tuple(own), f" at {length(int(N))}" if N else "") for (N, words), own in found.items()]


def gutter(axes: Axes, notes: Sequence[Note]) -> float:
    """Write notes above the panel, one below the other where they would meet; return the points that they take."""
    letter, row, step = scaled(0.6 * FONT), scaled(1.3 * FONT), scaled(5.0)
    room = wide(axes) * 72
    low, high = axes.get_xlim()
    upper_left = ScaledTranslation(0, 1, axes.transAxes)  # type: ignore[arg-type]
    scale = axes.get_figure(root=True).dpi_scale_trans  # type: ignore[union-attr]
    ends: list[float] = []
    for note in sorted(notes, key=lambda note: note.N):
        words, markers = note.words, len(note.looks) * step
        at = math.log(note.N / low) / math.log(high / low) * room + step / 2 if note.N else 0.0
        fits = at >= (len(words) + 0.5) * letter + markers
        words += "" if fits else note.at
        long = (len(words) + 0.5) * letter + markers
        start = at - long if fits else 0.0
        line = next((number for number, end in enumerate(ends) if end <= start), len(ends))
        ends[line : line + 1] = [start + long + 2 * letter]
        up = (line + 0.5) * row + scaled(2.0)
        # what fits ends at its length, wherever the axes come to be
        at_its_length = ScaledTranslation(note.N, 1, axes.get_xaxis_transform())  # type: ignore[arg-type]
        place = scale + (at_its_length if fits else upper_left)
        first = (0.0 if fits else long - step / 2) - (len(note.looks) - 1) * step
        ink = note.looks[0].color if len(note.looks) == 1 else soft()
        left = (first - step / 2 - letter / 2) / 72
        axes.text(left, up / 72, words, transform=place, ha="right", va="center_baseline", color=ink)
        unscaled: Any = {"transform": place, "clip_on": False, "scalex": False, "scaley": False}
        for number, look in enumerate(note.looks):
            axes.plot([(first + number * step) / 72], [up / 72], **unscaled, **look.marked)
    return len(ends) * row


def second_line(findings: Findings, conditions: Sequence[str]) -> str:
    """Return where it was measured; and the conditions, if all panels have them in common.

    Where a run has cells of unlike devices, conditions name the device: each panel its own, or this line that of all.
    """
    run, *others = on_each_device(findings)
    if others:
        return conditions[0] if len(conditions) == 1 else "each panel names its device"
    device = f"{device_name(findings)} ({run.surroundings.device})"
    return f"{conditions[0]}, {device}" if len(conditions) == 1 else device


def heading_of(section: Section, conditions: Sequence[str], *, titled: bool) -> str:
    """Return the head of a panel: what the title of the figure does not say."""
    workload = [] if titled else [section.workload.words]
    return ", ".join([*workload, section.mask, *([section.conditions] if len(conditions) > 1 else [])])


def where(members: Sequence[Section]) -> list[tuple[int, int]]:
    """Return rows and columns: conditions by masks; two by two where there is one mask alone, or most would be empty."""
    rows, columns = list(dict.fromkeys(s.conditions for s in members)), list(dict.fromkeys(s.causal for s in members))
    if len(columns) == 1 or 2 * len(members) <= 1.5 * len(rows) * len(columns):
        return [divmod(i, 2) for i in range(len(members))]
    return [(rows.index(s.conditions), columns.index(s.causal)) for s in members]


def parts(section: Section, most: int) -> list[Section]:
    """Return the section; or, of more methods than fit into a panel, several: families stay together as far as they fit."""
    if len(section.series) <= most:
        return [section]
    families = grouped((label.partition(".")[0], label) for label in section.series)
    groups: list[list[str]] = [[]]
    for labels in families.values():
        size = math.ceil(len(labels) / math.ceil(len(labels) / most))
        for first in range(0, len(labels), size):
            piece = labels[first : first + size]
            if len(groups[-1]) + len(piece) > most:
                groups.append([])
            groups[-1] += piece
    found = []
    for number, group in enumerate(groups, 1):
        names = list(dict.fromkeys(label.partition(".")[0] for label in group))
        few = ", ".join(names) if len(names) <= 3 else f"{names[0]} to {names[-1]}"
        conditions = f"{section.conditions}, {few} ({number} of {len(groups)})"
        summaries = tuple(summary for summary in section.summaries if summary.cell.label in group)
        found.append(replace(section, conditions=conditions, summaries=summaries))
    return found
