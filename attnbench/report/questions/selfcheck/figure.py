"""The figure of a selfcheck: how often a slow-down is found, against its size, a line for each number of replicates."""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from attnbench.analyze.selfcheck import INJECTED, SURE, Calibration, Power
from attnbench.report.conditions import device_of
from attnbench.report.drawing.images import images
from attnbench.report.drawing.panels import Panel, figures, named
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.drawing.style import applied, looks, said, scaled, soft
from attnbench.report.questions.selfcheck.table import cell_words, subject
from attnbench.report.text.names import shorten
from attnbench.schema.run import RunInfo

_LEAST = 0.12
"""The horizontal axis reaches at least so far."""


def pictures(found: Calibration, run: RunInfo) -> dict[str, bytes]:
    """Return the figure by format."""
    with applied(FOLDER.settings):
        return images(figure(found, run), ("png", "svg"))


def figure(found: Calibration, run: RunInfo) -> Figure:
    """Draw sides that ran one after the other; to be called within `style.applied()`."""
    up, tried = "verdicts that say SLOWER", found.paired
    # as far as the first slow-down that every line finds nearly always; the largest that was tried where there is none such
    curves = [curve for power in tried for curve in (power.at_margin, power.bare)]
    lowest = (min(hits.share or 0.0 for hits in every) for every in zip(*curves, strict=True))
    reach = next((x for x, low in zip(INJECTED, lowest, strict=True) if x >= _LEAST and low >= 0.99), INJECTED[-1])
    names = (*(f"{power.replicates} a side" for power in tried), "9 in 10", "margin")
    heads = {"no margin: significance alone": None, f"margin {100 * found.margin:g} %": found.margin}
    panels = [
        Panel(head, partial(_draw, tried, reach, margin), 0, column, up, scale=up, names=names)
        for column, (head, margin) in enumerate(heads.items())
    ]
    title = f"selfcheck of {shorten(subject(found.plan), 40)}: which slow-down is found"
    (picture,) = figures(panels, FOLDER, title, f"{cell_words(found.plan)}; {device_of(run)}", (2.8, 1.9))
    return picture


def _draw(powers: Sequence[Power], reach: float, margin: float | None, axes: Axes) -> None:
    known = looks(str(power.replicates) for power in powers)
    x = [injected for injected in INJECTED if injected <= reach]
    for power in powers:
        look, hits = known[str(power.replicates)], (power.bare if margin is None else power.at_margin)[: len(x)]
        if hits[0].of:
            band = [each.interval.low for each in hits], [each.interval.high for each in hits]
            axes.fill_between(x, *band, color=look.color, alpha=0.15, linewidth=0, zorder=2)
            shares, name = [each.share or 0.0 for each in hits], named(f"{power.replicates} a side")
            axes.plot(x, shares, label=name, clip_on=False, zorder=3, **look.drawn)
    axes.set_xlim(0, reach)
    axes.set_ylim(-0.02, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
    axes.set_xlabel("side B's medians, slower by")
    axes.axhline(SURE, label="9 in 10", color=soft(), linestyle=":", linewidth=scaled(0.9), zorder=1.5)
    if margin is not None:
        axes.axvline(margin, label="margin", color=soft(), linestyle="--", linewidth=scaled(0.9), zorder=1.5)
    if not any(power.slower.of for power in powers):
        said(axes, "nothing was measured")
