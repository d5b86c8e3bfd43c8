"""The picture of a judgement: each ratio with its interval, and the margin as a band."""

from functools import partial

from matplotlib.axes import Axes

from attnbench.analyze.compare import Comparison
from attnbench.analyze.quantities import Unit
from attnbench.analyze.verdict import Ratio, Verdict
from attnbench.report.drawing.images import images
from attnbench.report.drawing.panels import Panel, figures
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import applied, said, soft
from attnbench.report.drawing.ticks import number_across
from attnbench.report.questions.comparison.judgement import Judgement, word
from attnbench.report.text.names import drawable, short_names
from attnbench.report.text.numbers import percent
from attnbench.schema.units import counted, length, three_digits

MOST = 60
"""Rows; the worst are shown."""
# told apart by shape as well as by colour
_LOOK = {
    Verdict.SLOWER: ("#D55E00", "^"),
    Verdict.FASTER: ("#0072B2", "v"),
    Verdict.SAME: ("#009E73", "o"),
    Verdict.UNCLEAR: ("#7F7F7F", "s"),
    Verdict.LOST: ("#D55E00", "x"),
    Verdict.GAINED: ("#0072B2", "<"),
    Verdict.FAILS: ("#D55E00", "x"),
    Verdict.RUNS: ("#0072B2", "<"),
}
_FARTHEST = 100.0
_SHEET = Sheet(width=7.0)
_ROW = 0.155


def ratio_plot(judgement: Judgement, form: str) -> bytes:
    """Return the picture as png, svg or pdf; the same judgement gives the same bytes."""
    rows = [c for c in judgement.sorted if c.verdict is not Verdict.ABSENT]
    shown = rows[:MOST]
    hidden = f"; not drawn: {counted(len(rows) - MOST, 'more row')}" if len(rows) > MOST else ""
    panel = Panel("", partial(_draw, shown, judgement), 0, 0)
    with applied(_SHEET.settings):
        size = 7.0, max(4, len(shown)) * _ROW
        (picture,) = figures([panel], _SHEET, judgement.title, f"{judgement.conclusion}{hidden}", size)
        return images(picture, (form,))[form]


def _draw(rows: list[Comparison], judgement: Judgement, axes: Axes) -> None:
    """Draw the rows from the top down, wide enough for all intervals up to a factor of a hundred each way."""
    margin, quantity = judgement.terms.margin, judgement.quantity
    ends = [end for row in rows if row.ratio for end in _ends(row.ratio)]
    low = max(min([1 / (1 + 2 * margin), *ends]) / 1.05, 1 / _FARTHEST)
    high = min(max([1 + 2 * margin, *ends]) * 1.05, _FARTHEST)
    better, words = "right" if quantity.more_is_better else "left", word(Verdict.FASTER, quantity.unit).lower()
    title = f"{quantity.title}, new / old ({better}: {words}; grey: margin of {percent(margin)})"
    number_across(axes, Unit.FACTOR, low, high, title)
    axes.set_ylim(-0.7, max(0.7, len(rows) - 0.3))
    axes.axvspan(1 / (1 + margin), 1 + margin, color="#E8E8E8", zorder=0)
    axes.axvline(1.0, color=soft(), linewidth=0.7, zorder=1)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    # where the old side is everywhere the same it is in the title
    several = len({row.pair.old.cell.label for row in rows if row.pair.old}) > 1
    called = [judgement.called(row) if several else row.pair.any.cell.label for row in reversed(rows)]
    short, names = short_names(dict.fromkeys(called), 30), list[str]()
    for y, row in enumerate(reversed(rows)):
        cell, (color, marker) = row.pair.any.cell, _LOOK[row.verdict]
        what = [cell.workload.words, cell.problem.mask, length(cell.problem.N), *judgement.own(row)]
        names.append(drawable(", ".join([short[called[y]], *what])))
        words = word(row.verdict, quantity.unit)
        if row.ratio is None:
            if row.verdict is not Verdict.UNCLEAR:  # of what was not run nothing is known
                # as if it took for ever, or had: beyond the worst, or the best
                good = row.verdict in {Verdict.FASTER, Verdict.GAINED, Verdict.RUNS}
                at = low * 1.02 if good != quantity.more_is_better else high / 1.02
                at = 1.0 if row.verdict is Verdict.SAME else at
                axes.plot([at], [y], marker, color=color, clip_on=False)
        else:
            value = row.ratio.value
            axes.plot([min(max(end, low), high) for end in _ends(row.ratio)], [y, y], "-", color=color, linewidth=1.4)
            axes.plot([min(max(value, low), high)], [y], marker, color=color)
            words = f"{f'{value:.2f}' if 0.1 <= value < 10 else three_digits(value)} {words}"
        axes.annotate(words, (1.02, y), xycoords=("axes fraction", "data"), va="center", color=color, annotation_clip=False)
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    if not rows:
        said(axes, "nothing to compare")


def _ends(found: Ratio) -> tuple[float, float]:
    return (found.interval.low, found.interval.high) if found.interval else (found.value, found.value)
