"""The picture of a judgement: each ratio with its interval, and the margin as a band."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.compare import Comparison
from attnbench.analyze.verdict import Verdict
from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.drawing.ticks import factor_ticks
from attnbench.report.questions.comparison.judgement import Judgement, timed
from attnbench.report.questions.comparison.table import method
from attnbench.report.text.names import drawable, shorten
from attnbench.report.text.numbers import percent
from attnbench.schema.units import length

MOST = 60
"""Rows; the worst are shown."""
# told apart by shape as well as by colour
_LOOK = {
    Verdict.SLOWER: ("#D55E00", "^"),
    Verdict.FASTER: ("#0072B2", "v"),
    Verdict.SAME: ("#009E73", "o"),
    Verdict.UNCLEAR: ("#7F7F7F", "s"),
}
_LOST, _GAINED = ("#D55E00", "x"), ("#0072B2", "<")
_FARTHEST = 100.0
_LEFT, _RIGHT, _PANEL, _ROW = 2.9, 1.35, 2.6, 0.155


def ratio_plot(judgement: Judgement, form: str) -> bytes:
    """As png, svg or pdf; the same judgement gives the same bytes."""
    with style.applied():
        return images(_figure(judgement), (form,))[form]


def _figure(judgement: Judgement) -> Figure:
    rows = [c for c in judgement.sorted if timed(c) and c.verdict is not Verdict.ABSENT]
    shown = rows[:MOST]
    high = max(1, len(shown)) * _ROW
    head, foot = 0.52, 0.42
    width, height = _LEFT + _PANEL + _RIGHT, high + head + foot
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((_LEFT / width, foot / height, _PANEL / width, high / height))
    _titles(figure, judgement, len(rows) - len(shown))
    _scale(axes, shown, judgement.terms.margin)
    for number, row in enumerate(shown):
        _draw(axes, row, len(shown) - 1 - number)
    name = method if len({row.pair.old.cell.label for row in shown if row.pair.old}) > 1 else _one
    names = [_name(row, name(row)) for row in reversed(shown)]
    axes.set_yticks(range(len(shown)), names, parse_math=False)
    if not shown:
        axes.text(0.5, 0.5, "nothing to compare", transform=axes.transAxes, ha="center", va="center", color="#555555")
    return figure


def _titles(figure: Figure, judgement: Judgement, hidden: int) -> None:
    height = figure.get_figheight()
    place: Any = {"ha": "left", "va": "top", "parse_math": False}
    letters = int(figure.get_figwidth() * 15)
    figure.text(0.01, 1 - 0.04 / height, drawable(shorten(judgement.title, letters)), fontweight="bold", **place)
    more = f"; {hidden} rows more are not drawn" if hidden > 0 else ""
    second = shorten(f"{judgement.conclusion}{more}", letters)
    figure.text(0.01, 1 - 0.19 / height, drawable(second), color="#444444", **place)


def _scale(axes: Axes, rows: list[Comparison], margin: float) -> None:
    """Wide enough for 1, the margin and all intervals, up to a factor of a hundred each way."""
    ends = [end for row in rows if row.ratio for end in _ends(row)]
    low, high = min([1 / (1 + 2 * margin), *ends]) / 1.05, max([1 + 2 * margin, *ends]) * 1.05
    low, high = max(low, 1 / _FARTHEST), min(high, _FARTHEST)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.set_ylim(-0.7, max(0.7, len(rows) - 0.3))
    ticks = factor_ticks(low, high)
    axes.set_xticks([tick for tick, _ in ticks], [words for _, words in ticks])
    axes.minorticks_off()
    axes.axvspan(1 / (1 + margin), 1 + margin, color="#E8E8E8", zorder=0)
    axes.axvline(1.0, color="#555555", linewidth=0.7, zorder=1)
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"time, new / old (left: faster; grey: margin of {percent(margin)})", labelpad=2)


def _ends(row: Comparison) -> tuple[float, float]:
    assert row.ratio is not None
    interval = row.ratio.interval
    return (interval.low, interval.high) if interval else (row.ratio.value, row.ratio.value)


def _draw(axes: Axes, row: Comparison, y: int) -> None:
    low, high = axes.get_xlim()
    if row.ratio is None:
        # as if it took for ever, or had
        gained = row.verdict is Verdict.GAINED
        color, marker = _GAINED if gained else _LOST
        axes.plot([low * 1.02 if gained else high / 1.02], [y], marker, color=color, markersize=5, clip_on=False)
        _beside(axes, y, row.verdict.value, color)
        return
    color, marker = _LOOK.get(row.verdict, _LOOK[Verdict.UNCLEAR])
    a, b = (min(max(end, low), high) for end in _ends(row))
    axes.plot([a, b], [y, y], "-", color=color, linewidth=1.4, solid_capstyle="butt")
    axes.plot([min(max(row.ratio.value, low), high)], [y], marker, color=color, markersize=4)
    _beside(axes, y, f"{_ratio(row.ratio.value)} {row.verdict.value}", color)


def _beside(axes: Axes, y: int, text: str, color: str) -> None:
    axes.annotate(
        text, (1.03, y), xycoords=("axes fraction", "data"), va="center", ha="left", color=color, annotation_clip=False
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}" if math.log10(value) < 1 else f"{value:.3g}"


def _one(row: Comparison) -> str:
    """The new side alone: the old one is everywhere the same, and in the title."""
    return (row.pair.new or row.pair.any).cell.label


def _name(row: Comparison, label: str) -> str:
    cell = row.pair.any.cell
    mask = "causal" if cell.problem.causal else "full"
    short = {"forward_backward": "f+b", "decode_total": "total"}.get(cell.workload.value, cell.workload.value)
    return drawable(f"{shorten(label, 30)}, {short}, {mask}, {length(cell.problem.N)}")
