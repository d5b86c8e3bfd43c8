"""The picture of crossovers: the ratio of two methods against length, a panel a section, with the interval of each crossing."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.crossover import Crossing
from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import Versus
from attnbench.report import style
from attnbench.report.conditions import device_name
from attnbench.report.crossover_words import rounded
from attnbench.report.findings import Findings
from attnbench.report.images import images
from attnbench.report.names import drawable, shorten
from attnbench.report.statuses import short
from attnbench.report.style import FONT, Look
from attnbench.report.ticks import length_ticks

# inches
_LEFT, _RIGHT, _PANEL, _GAP = 0.62, 0.12, 2.7, 0.45
_TITLE, _HEAD, _HEIGHT, _AXIS, _LINE = 0.42, 0.24, 1.9, 0.36, FONT * 1.25 / 72
_TICKS = (0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100)
_COLUMNS = 2


def crossover_plot(findings: Findings, compared: Sequence[Versus], form: str) -> bytes:
    """As png, svg or pdf; the same run gives the same bytes."""
    with style.applied():
        return images(_figure(findings, compared), (form,))[form]


def _figure(findings: Findings, compared: Sequence[Versus]) -> Figure:
    panels = [(s, members) for s in findings.sections if (members := [v for v in compared if v.section is s])]
    looks = style.looks(dict.fromkeys(findings.labels))
    columns, rows = min(_COLUMNS, len(panels)), math.ceil(len(panels) / _COLUMNS)
    entries = max(len(members) for _, members in panels)
    row = _HEAD + _HEIGHT + _AXIS + entries * _LINE
    width, height = _LEFT + columns * (_PANEL + _GAP) - _GAP + _RIGHT, _TITLE + rows * row
    figure = Figure(figsize=(width, height))
    _titles(figure, findings, compared[0])
    for number, (section, members) in enumerate(panels):
        left = _LEFT + number % columns * (_PANEL + _GAP)
        top = height - _TITLE - number // columns * row - _HEAD
        axes = figure.add_axes((left / width, (top - _HEIGHT) / height, _PANEL / width, _HEIGHT / height))
        _panel(axes, findings, section, members, looks)
    return figure


def _titles(figure: Figure, findings: Findings, first: Versus) -> None:
    height, letters = figure.get_figheight(), int(figure.get_figwidth() * 15)
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    about = f" ({first.metric.about})" if first.metric.about else ""
    title = drawable(shorten(f"Ratio of {first.metric.name}{about}; below 1 the first is ahead", letters))
    figure.text(0.01, 1 - 0.04 / height, title, fontsize=FONT + 1, fontweight="bold", **place)
    second = f"{device_name(findings)} ({findings.run.surroundings.device}); bars: 95 %"
    figure.text(0.01, 1 - 0.2 / height, drawable(shorten(second, letters)), color="#444444", **place)


def _panel(axes: Axes, findings: Findings, section: Section, members: Sequence[Versus], looks: dict[str, Look]) -> None:
    points = {versus.of: _ratios(versus) for versus in members}
    _scales(axes, section, [end for ratios in points.values() for found in ratios.values() for end in _ends(found)])
    for versus in members:
        _line(axes, points[versus.of], looks[versus.of], _name(findings, versus))
        for crossing in versus.crossover.crossings:
            _mark(axes, crossing, looks[versus.of])
    if not any(points.values()):
        axes.text(0.5, 0.5, "nothing to compare", transform=axes.transAxes, ha="center", va="center", color="#555555")
    axes.set_title(drawable(section.title), loc="left", pad=4)
    place: Any = {"loc": "upper left", "bbox_to_anchor": (-0.02, -_AXIS / _HEIGHT), "borderaxespad": 0, "borderpad": 0}
    box = axes.legend(frameon=False, labelspacing=0.25, handlelength=2.6, **place) if any(points.values()) else None
    for text in box.get_texts() if box else ():
        text.set_parse_math(False)


def _name(findings: Findings, versus: Versus) -> str:
    """Both methods; where nothing can be drawn, why not."""
    names = f"{findings.plot_names[versus.of]} / {findings.plot_names[versus.over]}"
    statuses = dict.fromkeys(short(status) for gap in versus.gaps for status in (gap.of, gap.over) if status)
    return names if versus.crossover.lengths else f"{names}: {', '.join(statuses)}"


def _ratios(versus: Versus) -> dict[int, Ratio]:
    """By length, of those that were compared."""
    at, metric = versus.section.at, versus.metric
    return {N: ratio(metric.of(at(versus.over, N)), metric.of(at(versus.of, N)), paired=True) for N in versus.crossover.lengths}


def _ends(found: Ratio) -> tuple[float, float]:
    """Of its interval, unless that of two or three replicates reaches out of all proportion."""
    if found.interval is None or found.interval.high > 4 * found.value:
        return found.value, found.value
    return found.interval.low, found.interval.high


def _scales(axes: Axes, section: Section, ends: Sequence[float]) -> None:
    low, high = min([1 / 1.3, *ends]) / 1.2, max([1.3, *ends]) * 1.2
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(section.lengths[0] / 1.15, section.lengths[-1] * 1.15)
    axes.set_ylim(low, high)
    octaves = math.log2(section.lengths[-1] / section.lengths[0] * 1.15**2)
    ticks = length_ticks(section.lengths, _PANEL / octaves, 0.3)
    axes.set_xticks([N for N, _ in ticks], [text for _, text in ticks])
    shares = [tick for tick in _TICKS if low <= tick <= high]
    shares = shares if len(shares) > 1 else [0.8, 1, 1.25]
    axes.set_yticks(shares, [f"{tick:g}" for tick in shares])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.axhline(1.0, color="#555555", linewidth=0.8, zorder=1)
    axes.set_xlabel("N", labelpad=1)


def _line(axes: Axes, points: dict[int, Ratio], look: Look, name: str) -> None:
    # a leading underscore would hide an entry
    label = f"\u200b{drawable(name)}" if name.startswith("_") else drawable(name)
    drawn: Any = {"color": look.color, "linestyle": look.line, "marker": look.marker, "markerfacecolor": look.face}
    axes.plot(list(points), [found.value for found in points.values()], markeredgewidth=0.8, zorder=3, label=label, **drawn)
    for N, found in points.items():
        axes.plot([N, N], _ends(found), "-", color=look.color, linewidth=0.9, zorder=2)


def _mark(axes: Axes, crossing: Crossing, look: Look) -> None:
    """A bar along the line of 1, and N above it; without an interval the bracket, faint."""
    known = crossing.interval is not None
    low, high = (crossing.interval.low, crossing.interval.high) if crossing.interval else crossing.bracket
    axes.plot(
        [low, high], [1, 1], "-", color=look.color, linewidth=5, alpha=0.45 if known else 0.18, zorder=4, solid_capstyle="butt"
    )
    if known:
        place: Any = {
            "xytext": (2, 5),
            "textcoords": "offset points",
            "bbox": {"fc": "white", "ec": "none", "alpha": 0.75, "pad": 0.4},
        }
        axes.annotate(rounded(crossing.length), (crossing.length, 1), color=look.color, zorder=5, **place)
