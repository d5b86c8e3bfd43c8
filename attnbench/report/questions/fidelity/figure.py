"""The fidelity figure: what a method keeps and how far it is off, against what it costs; two panels for each length."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from attnbench.analyze.fidelity import score, share_of_dense
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate
from attnbench.report.conditions import device_name
from attnbench.report.drawing import style
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.lines import Line, lines
from attnbench.report.questions.fidelity.notes import error_note, recall_note, score_notes, top_keys
from attnbench.report.text.names import drawable, one_line, shorten
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR
from attnbench.schema.units import length

# inches: left of a panel, the panel, right of the last; title, head of a panel, its axis, a line of the legend
_LEFT, _PANEL, _RIGHT = 0.58, 2.55, 0.12
_TITLE, _HEAD, _HEIGHT, _AXIS, _LINE = 0.40, 0.20, 2.1, 0.40, 0.13
_ACROSS = 2
_ALONE, _MARKERS = "o", ("s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_NAME, _IN_A_ROW = 60, 6
_LEAST_ERROR = 1e-3
"""What is nearer to exact stands there too."""


@dataclass(frozen=True)
class _Panel:
    title: str
    lines: tuple[Line, ...]
    metric: str


@dataclass(frozen=True)
class _Legend:
    """How lines look, by name, and the markers of the steps along them."""

    looks: dict[str, style.Look]
    swept: frozenset[str]
    """Names of those that are lines; of the others each cell is a point."""
    markers: dict[str, str]


def fidelity_figure(findings: Findings, sections: Sequence[Section]) -> Figure:
    """To be called within `style.applied()`."""
    panels = [panel for section in sections for N in section.lengths for panel in _panels(section, N, sections)]
    legend = _legend_of(line for panel in panels for line in panel.lines)
    entries = len(legend.looks) + math.ceil(len(legend.markers) / _IN_A_ROW) + 1
    down = len(panels) // _ACROSS
    width = _ACROSS * (_LEFT + _PANEL) + _RIGHT
    row = _HEAD + _HEIGHT + _AXIS
    height = _TITLE + down * row + entries * _LINE + 0.12
    figure = Figure(figsize=(width, height))
    _title(figure, findings, sections)
    span, off = _span(findings, panels), _errors(findings, panels)
    for number, panel in enumerate(panels):
        i, j = divmod(number, _ACROSS)
        left, bottom = _LEFT + j * (_LEFT + _PANEL), height - _TITLE - i * row - _HEAD - _HEIGHT
        axes = figure.add_axes((left / width, bottom / height, _PANEL / width, _HEIGHT / height))
        _draw(axes, findings, panel, legend, span)
        _upwards(axes, panel.metric, off, sections)
    _place_legend(figure, legend)
    return figure


def fidelity_caption(findings: Findings, sections: Sequence[Section]) -> str:
    """The text beside the figure."""
    cells = [summary for section in sections for summary in section.summaries]
    said = [
        "fidelity: mass recall and output error, against the FLOPs of the definition over those of dense attention. "
        f"{device_name(findings)}.",
        recall_note(cells),
        f"{error_note()} One below {_LEAST_ERROR:g} is drawn there.",
        "Dotted: as large a share of all pairs, chosen at random, keeps as large a share of the mass.",
        "Bars: the range of the replicates, as said below. Lines join one method's values of one parameter, by marker.",
        *score_notes(findings, cells),
    ]
    return "".join(f"{one_line(line)}\n" for line in said)


def _panels(section: Section, N: int, sections: Sequence[Section]) -> list[_Panel]:
    found, where = tuple(lines(section, N)), _where(section, N, sections)
    return [_Panel(where, found, MASS_RECALL), _Panel("", found, OUTPUT_ERROR)]


def _where(section: Section, N: int, sections: Sequence[Section]) -> str:
    return f"N = {length(N)}" + (f", {section.mask}, {section.conditions}" if len(sections) > 1 else "")


def _title(figure: Figure, findings: Findings, sections: Sequence[Section]) -> None:
    width, height = figure.get_size_inches()
    device = f"{device_name(findings)} ({findings.run.surroundings.device})"
    one = f"{sections[0].mask}, {sections[0].conditions}, " if len(sections) == 1 else ""
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    figure.text(
        0.01,
        1 - 0.04 / height,
        "fidelity: what is kept, and its cost",
        fontsize=style.FONT + 1,
        fontweight="bold",
        **place,
    )
    words = drawable(shorten(one + device, int(width * 15)))
    figure.text(0.01, 1 - 0.19 / height, words, color="#444444", **place)


def _legend_of(found: Iterable[Line]) -> _Legend:
    every = list(found)
    steps: dict[str, list[str]] = {}
    for line in every:
        seen = steps.setdefault(line.swept, []) if line.swept else []
        seen += [step for s in line.cells if (step := line.step(s)) not in seen]
    # each parameter begins anew: markers are told apart along a line
    markers = {step: _MARKERS[rank % len(_MARKERS)] for of_one in steps.values() for rank, step in enumerate(of_one)}
    swept = frozenset(line.name for line in every if line.swept)
    return _Legend(style.looks(dict.fromkeys(line.name for line in every)), swept, markers)


def _points(findings: Findings, line: Line, metric: str) -> list[tuple[float, Estimate, str]]:
    """Cost, score as it is drawn, step."""
    found = ((share_of_dense(s, findings.run), score(s, metric), line.step(s)) for s in line.cells)
    least = _LEAST_ERROR if metric == OUTPUT_ERROR else 0.0
    return [(x, _at_least(least, y), step) for x, y, step in found if x and y is not None]


def _at_least(least: float, y: Estimate) -> Estimate:
    low, high = (max(least, end) for end in (y.interval.low, y.interval.high))
    return Estimate(max(least, y.value), replace(y.interval, low=low, high=high))


def _span(findings: Findings, panels: Sequence[_Panel]) -> tuple[float, float]:
    """Of the horizontal axes: around all points, 100 % included."""
    shares = [x for panel in panels for line in panel.lines for x, _, _ in _points(findings, line, panel.metric)]
    return min([0.5, *shares]) / 1.3, max([1.0, *shares]) * 1.3


def _errors(findings: Findings, panels: Sequence[_Panel]) -> tuple[float, float]:
    """Of the vertical axes of errors: around all points, and at least a decade."""
    every = [panel for panel in panels if panel.metric == OUTPUT_ERROR]
    found = [y.value for panel in every for line in panel.lines for _, y, _ in _points(findings, line, OUTPUT_ERROR)]
    return min([0.1, *found]) / 1.3, max([1.0, *found]) * 1.3


def _upwards(axes: Axes, metric: str, off: tuple[float, float], sections: Sequence[Section]) -> None:
    """The vertical axis, and what goes with it."""
    if metric == OUTPUT_ERROR:
        axes.set_yscale("log")
        axes.set_ylim(*off)
        axes.yaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0) if off[1] < 50 * off[0] else (1.0,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("output error")
        return
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel(f"mass recall of the {top_keys(sections[0].summaries)} top keys")
    low, high = axes.get_xlim()
    random = [low * (min(1.0, high) / low) ** (step / 50) for step in range(51)]
    axes.plot(random, random, ":", color="#555555", linewidth=0.9, zorder=1.5)


def _draw(axes: Axes, findings: Findings, panel: _Panel, legend: _Legend, span: tuple[float, float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(*span)
    ticks = [2.0**k for k in range(math.ceil(math.log2(span[0])), math.floor(math.log2(span[1])) + 1)]
    axes.set_xticks(ticks[:: math.ceil(len(ticks) / 7)], [_percent(x) for x in ticks[:: math.ceil(len(ticks) / 7)]])
    axes.xaxis.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.set_xlabel("FLOPs, share of dense attention's", labelpad=1)
    axes.set_title(drawable(panel.title), loc="left", pad=4, parse_math=False)
    for line in panel.lines:
        _line(axes, _points(findings, line, panel.metric), legend.looks[line.name], legend.markers)
    if not any(_points(findings, line, panel.metric) for line in panel.lines):
        axes.text(0.5, 0.5, "nothing was measured", transform=axes.transAxes, ha="center", va="center", color="#555555")


def _line(axes: Axes, points: Sequence[tuple[float, Estimate, str]], look: style.Look, markers: dict[str, str]) -> None:
    axes.plot([x for x, _, _ in points], [y.value for _, y, _ in points], color=look.color, linestyle=look.line, zorder=3)
    for x, y, step in points:
        axes.vlines(x, y.interval.low, y.interval.high, color=look.color, linewidth=0.9, zorder=3)
        axes.plot([x], [y.value], markers.get(step, _ALONE), color=look.color, markerfacecolor=look.face, zorder=4)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 1 else f"{100 * share:.0f}%"


def _place_legend(figure: Figure, legend: _Legend) -> None:
    """Lines one below the other; then steps, six in a row; then what is dotted."""
    names = [(name, _sample(look, swept=name in legend.swept)) for name, look in legend.looks.items()]
    steps = [(step, Line2D([], [], color="#444444", linestyle="", marker=m)) for step, m in legend.markers.items()]
    chance = [("as many pairs, chosen at random", Line2D([], [], color="#555555", linestyle=":", linewidth=0.9))]
    foot = _block(figure, chance, 1, 0.06)
    foot = _block(figure, steps, _IN_A_ROW, foot)
    _block(figure, names, 1, foot)


def _sample(look: style.Look, *, swept: bool) -> Line2D:
    line: Any = look.line if swept else ""
    return Line2D([], [], color=look.color, linestyle=line, marker="" if swept else _ALONE, markerfacecolor=look.face)


def _block(figure: Figure, entries: Sequence[tuple[str, Line2D]], columns: int, foot: float) -> float:
    """Entries above `foot` inches; where they end."""
    if not entries:
        return foot
    # a leading underscore would hide an entry
    texts = [f"\u200b{drawable(shorten(name, _NAME))}" for name, _ in entries]
    box = figure.legend(
        [handle for _, handle in entries],
        texts,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0.01, foot / figure.get_size_inches()[1]),
        frameon=False,
        borderpad=0,
        borderaxespad=0.4,
        labelspacing=0.25,
        handlelength=2.6,
        columnspacing=1.0,
        handletextpad=0.6,
    )
    for text in box.get_texts():
        text.set_parse_math(False)
    return foot + math.ceil(len(entries) / columns) * _LINE
