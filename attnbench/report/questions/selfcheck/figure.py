"""The figure of a selfcheck: how often a slow-down is found, against its size, a line for each number of replicates."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from attnbench.analyze.power import INJECTED, SURE, Hits, Power
from attnbench.analyze.selfcheck import Calibration
from attnbench.report.conditions import device_name
from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.findings import Findings
from attnbench.report.questions.selfcheck.notes import cell_words, subject
from attnbench.report.text.names import drawable, shorten
from attnbench.schema.run import RunInfo

FORMATS = ("png", "svg")
# inches: left of the first panel, a panel, the gap between two; title, head of a panel, its axis
_LEFT, _PANEL, _GAP, _RIGHT = 0.60, 2.35, 0.36, 0.16
_TITLE, _HEAD, _HEIGHT, _AXIS = 0.36, 0.22, 1.9, 0.40
_LEAST = 0.12
"""The horizontal axis reaches at least so far."""


def pictures(found: Calibration, run: RunInfo) -> dict[str, bytes]:
    """By format."""
    with style.applied():
        return images(figure(found, run), FORMATS)


def figure(found: Calibration, run: RunInfo) -> Figure:
    """Sides that ran one after the other; to be called within `style.applied()`."""
    width, height = _LEFT + 2 * _PANEL + _GAP + _RIGHT, _TITLE + _HEAD + _HEIGHT + _AXIS
    picture = Figure(figsize=(width, height))
    _title(picture, found, run)
    reach = _reach(found.paired)
    for number in range(2):
        left = _LEFT + number * (_PANEL + _GAP)
        axes = picture.add_axes((left / width, _AXIS / height, _PANEL / width, _HEIGHT / height))
        _scales(axes, reach)
        _curves(axes, found.paired, reach, at_margin=number == 1)
        axes.set_title(_name(found, at_margin=number == 1), loc="left", pad=4)
        if number:
            axes.tick_params(labelleft=False)
            axes.axvline(found.margin, color="#555555", linestyle=":", linewidth=0.9, zorder=1.5)
            _legend(axes)
        else:
            axes.set_ylabel("verdicts that say SLOWER")
    return picture


def _title(picture: Figure, found: Calibration, run: RunInfo) -> None:
    width, height = picture.get_size_inches()
    words = f"selfcheck of {shorten(subject(found.plan), 40)}: which slow-down is found"
    device = device_name(Findings.of(run, ()))
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    top = 1 - 0.04 / height
    picture.text(0.01, top, drawable(words), fontsize=style.FONT + 1, fontweight="bold", **place)
    second = shorten(f"{cell_words(found.plan)}; {device}", int(width * 15))
    picture.text(0.01, top - 0.15 / height, drawable(second), color="#444444", **place)


def _name(found: Calibration, *, at_margin: bool) -> str:
    return f"margin {100 * found.margin:g} % (dotted)" if at_margin else "no margin: significance alone"


def _reach(powers: Sequence[Power]) -> float:
    """The first slow-down that every line finds nearly always; the largest that was tried where there is none such."""
    for number, injected in enumerate(INJECTED):
        shares = [hits.share or 0.0 for power in powers for hits in (power.at_margin[number], power.bare[number])]
        if injected >= _LEAST and min(shares, default=1.0) >= 0.99:
            return injected
    return INJECTED[-1]


def _scales(axes: Axes, reach: float) -> None:
    axes.set_xlim(0, reach)
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
    axes.set_xlabel("side B's medians, slower by", labelpad=1)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.axhline(SURE, label="9 in 10", color="#555555", linestyle=":", linewidth=0.9, zorder=1.5)


def _curves(axes: Axes, powers: Sequence[Power], reach: float, *, at_margin: bool) -> None:
    looks = style.looks(str(power.replicates) for power in powers)
    tried = sum(injected <= reach for injected in INJECTED)
    for power in powers:
        hits = (power.at_margin if at_margin else power.bare)[:tried]
        _curve(axes, hits, looks[str(power.replicates)], f"{power.replicates} a side")
    if not any(power.slower.of for power in powers):
        axes.text(0.5, 0.5, "nothing was measured", transform=axes.transAxes, ha="center", va="center", color="#555555")


def _curve(axes: Axes, hits: Sequence[Hits], look: style.Look, name: str) -> None:
    """Hit rates, and the band of their 95 % intervals."""
    if not hits[0].of:
        return
    x = INJECTED[: len(hits)]
    low, high = [each.interval.low for each in hits], [each.interval.high for each in hits]
    axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0, zorder=2)
    shares = [each.share or 0.0 for each in hits]
    marks: Any = {"marker": look.marker, "markerfacecolor": look.face, "clip_on": False}
    axes.plot(x, shares, color=look.color, linestyle=look.line, label=name, zorder=3, **marks)


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower right", frameon=False, borderpad=0, handlelength=2.6)
