"""The figures of what models learn: curves of held-out loss and scores, and the images that each method's model makes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from attnbench.analyze.cells import LOSSES, CellSummary, Moment, learning_curve
from attnbench.analyze.quantities import Unit
from attnbench.analyze.sections import Section, grouped
from attnbench.report.conditions import device_name, measured
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, by_workload, text
from attnbench.report.drawing.lines import parts, second_line
from attnbench.report.drawing.panels import Panel, columns_of, figures, named
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import FONT, Look, run_looks, said, scaled, soft
from attnbench.report.drawing.ticks import wide
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import CURVES, by_length, heads, where
from attnbench.report.text.models import chance
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN

_FAR = 20.0
"""From this ratio of the highest to the lowest loss on, equal steps would press what is low into one line."""
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_MARKED = 6
"""Markers on a line, about."""
_NONE = "no model of the run was to draw; its suite would say training: {task: pixels, drawings: 8}"
MOST = 8
"""Images of each kind that are shown."""
_WIDTH, _ROOM = 2.6, 2.9
"""Inches for letters of 7 points: of a panel of images that has room, and what one needs at least."""
_COLOURS = 3
_Pixels = NDArray[np.float64]
_Curve = tuple[str, Look, tuple[Moment, ...]]
"""The name of a method, its look, and what it had learnt at each moment."""
_Crosses = dict[str, str]
"""By what the legend says of a method without a trained model, its colour."""


def curves(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw a row for each score of each section of one length; updates on the left, time on the right."""
    otherwise = "the run trains nothing; its suite would say workloads: [train]"
    (sections,) = by_workload(findings, lambda section: section.workload is Workload.TRAIN, otherwise)
    groups = [part for section in sections for one in by_length(section) for part in parts(one, sheet.methods)]
    common, words = heads(groups)
    looks, panels = run_looks(findings), list[Panel]()
    failed = _untrained(findings, groups, lambda cell: "" if learning_curve(cell) else "no curve was recorded")
    for section, head in zip(groups, words, strict=True):
        for level, (score, up) in CURVES.items():
            known = ((s.cell.label, learning_curve(s, score)) for s in section.summaries)
            found = [(findings.plot_names[label], looks[label], moments) for label, moments in known if moments]
            if not found and score != LOSSES:
                continue
            levels = (chance(cell, level) for cell in section.summaries)
            guessed = next((value for value in levels if value is not None), None)
            values = [end for _, _, each in found for m in each for end in (m.low, m.high)] + ([guessed] if guessed else [])
            # losses far apart are drawn on a logarithmic axis
            unit = Unit.PLAIN if score == LOSSES and min(values, default=0) > 0 and max(values) > _FAR * min(values) else None
            names = (*(name for name, _, _ in found), "chance", *failed)
            row = len(panels) // 2
            for timed in (False, True):
                draw = partial(_draw_curves, found, score, guessed, failed, timed)
                # what is beside it on the left is of the same section
                own = head if not timed or columns_of(sheet, 2) == 1 else ""
                panels.append(Panel(own, draw, row, int(timed), up, unit, row, names))
    titles = {panel.up for panel in panels}
    shown = [level.replace("_", " ") for level, (_, up) in CURVES.items() if up in titles]
    title = f"training: held-out {' and '.join(shown)} while it learns"
    drawn = figures(panels, sheet, title, second_line(findings, [common]), (3.0, 1.6))
    counts = sorted({len(s.series.get(LOSSES, {})) for section in sections for s in section.summaries if s.ok})
    seeds = " to ".join(str(count) for count in dict.fromkeys(counts[:1] + counts[-1:]))
    band = f"Line: median of n = {seeds} seeds; band: smallest and largest seed; time: median of the seeds. Dotted: chance."
    trained = "n = 1 seed: no band." if counts == [1] else band
    seen = [
        "training: loss of held-out sequences (nats per judged token), and accuracy where there is a right answer, or of "
        "speech the error rate, against "
        f"updates and against the time of training, in which nothing is judged. {device_name(findings)}.",
        trained if counts else "No method was trained to its end.",
    ]
    return [Drawing(Workload.TRAIN.value, drawn, text(seen, measured(findings, sections)))]


def _draw_curves(found: Sequence[_Curve], score: str, guessed: float | None, failed: _Crosses, timed: bool, axes: Axes) -> None:
    longest = max((m.seconds if timed else m.update for _, _, each in found for m in each), default=1.0) or 1.0
    # the longest training takes at least three units of time, so that ticks are small whole numbers
    unit, name = next((each for each in _UNITS if longest >= 3 * each[0]), _UNITS[-1]) if timed else (1.0, "")
    axes.set_xlim(-0.02 * longest / unit, 1.02 * longest / unit)
    axes.set_xlabel(f"{name} of training" if timed else "updates")
    axes.xaxis.set_major_locator(MaxNLocator(max(2, min(6, int(wide(axes) / scaled(0.42))))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value == round(value) else f"{value:g}"))
    if score != LOSSES:
        # a model that has learnt nothing yet may make many more errors than there are symbols
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    for number, (name, look, moments) in enumerate(found):
        across = [(m.seconds if timed else m.update) / unit for m in moments]
        step = max(1, len(moments) // _MARKED)
        axes.fill_between(across, [m.low for m in moments], [m.high for m in moments], color=look.color, alpha=0.2, linewidth=0)
        # markers of different methods stand at different moments, for curves often lie upon each other
        marked: Any = {"markevery": (number % step, step), "linewidth": scaled(0.9), "markersize": scaled(2.8), **look.drawn}
        axes.plot(across, [m.middle for m in moments], label=named(name), zorder=3 + 0.01 * number, **marked)
    if guessed is not None:
        axes.axhline(guessed, linestyle=":", color=soft(), linewidth=scaled(0.9), label=named("chance"), zorder=1.5)
    _name_untrained(axes, failed)
    if not found:
        said(axes, "nothing was measured")


@dataclass(frozen=True)
class Mosaic:
    """Red, green, blue and opacity by row and column; between images the ground shows."""

    pixels: _Pixels
    rows: int
    """Of one image."""
    middles: dict[str, float]
    """The middle row of each strip, in the coordinates of pixels, whose centres are whole."""
    given_ends: list[tuple[tuple[float, float], tuple[float, float]]]
    """For each completed image the line below the half that was given."""


def mosaic(summary: CellSummary) -> Mosaic | None:
    """Lay out the images of the first seed; None unless the cell is ok and its record holds whole images of all kinds."""
    shape = [summary.facts.get(name) for name in ("image_rows", "image_columns", "levels")]
    if not summary.ok or not all(isinstance(size, int) and size > 0 for size in shape):
        return None
    rows, columns, levels = (int(size) for size in shape if size is not None)
    strips: dict[str, _Pixels] = {}
    for name in (GIVEN, COMPLETED, DRAWN):
        seeds = summary.series.get(name, {})
        values = np.array(seeds[min(seeds)] if seeds else (), dtype=np.float64)
        if not len(values) or len(values) % (rows * columns):
            return None
        # three columns for one are its colours
        colours = _COLOURS if columns == _COLOURS * rows else 1
        images = values.reshape(-1, rows, columns // colours, colours)
        strips[name] = np.broadcast_to(images, (*images.shape[:3], _COLOURS)) / max(1, levels - 1)
    count, columns = min(MOST, *map(len, strips.values())), strips[GIVEN].shape[2]
    gap = max(1, rows // 8)
    lefts = [i * (columns + gap) for i in range(count)]
    tops = {name: i * (rows + gap) for i, name in enumerate(strips)}
    pixels = np.zeros((len(strips) * (rows + gap) - gap, count * (columns + gap) - gap, _COLOURS + 1))
    for name, images in strips.items():
        for left, image in zip(lefts, images, strict=False):
            place = pixels[tops[name] : tops[name] + rows, left : left + columns]
            place[..., :_COLOURS], place[..., _COLOURS] = np.clip(image, 0.0, 1.0), 1.0
    end = tops[COMPLETED] + rows // 2 - 0.5
    given_ends = [((left - 0.5, end), (left + columns - 0.5, end)) for left in lefts]
    return Mosaic(pixels, rows, {name: top + (rows - 1) / 2 for name, top in tops.items()}, given_ends)


def drawings(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw what the models that were trained on images complete and draw."""
    (trained,) = by_workload(findings, lambda section: section.workload is Workload.TRAIN, _NONE)
    sections = [s for s in trained if any(c.cell.training and c.cell.training.drawings for c in s.summaries)]
    if not sections:
        raise CannotDrawError(_NONE)
    groups = [part for section in sections for part in by_length(section)]
    shown = [(group, cell, found) for group in groups for cell in group.summaries if (found := mosaic(cell))]
    room = 2 * _ROOM if sheet.width is None else sheet.width * FONT / sheet.font
    across = max(1, int(room / _ROOM))
    failed = _untrained(
        findings, groups, lambda cell: "" if mosaic(cell) else one_line(cell.fact("not_drawn")) or "no images were recorded"
    )
    panels = []
    for number, (group, cell, found) in enumerate(shown):
        head = ", ".join([findings.plot_names[cell.cell.label], *([where(group)] if len(groups) > 1 else [])])
        panels.append(Panel(head, partial(_draw_images, found, failed), *divmod(number, across), names=tuple(failed)))
    panels = panels or [Panel("", partial(_draw_images, None, failed), 0, 0, names=tuple(failed))]
    # panels that the pictures fill to their width
    width = room / across - (_ROOM - _WIDTH)
    height = width * max((found.pixels.shape[0] / found.pixels.shape[1] for _, _, found in shown), default=0.5)
    second = second_line(findings, list(dict.fromkeys(where(group) for group in groups)))
    drawn = figures(panels, sheet, "training: images given, completed and drawn", second, (_ROOM + 0.1, height - 0.4))
    cells = [summary for section in sections for summary in section.summaries]
    wanted = max(s.cell.training.drawings for s in cells if s.cell.training)
    seeds = max((s.replicates for s in cells if s.ok), default=0)
    some = f" The first {MOST} of {wanted} of each." if wanted > MOST else ""
    seen = [
        f"training: images of each method's model after its last update, the first of n = {seeds} seeds. "
        f"{device_name(findings)}.",
        "given: images that were held out; completed: the half above the line was given, the other drawn; drawn: "
        f"from nothing.{some} Levels from black to white, nearest neighbour.",
    ]
    return [Drawing(Workload.TRAIN.value, drawn, text(seen, measured(findings, sections)))]


def _draw_images(found: Mosaic | None, failed: _Crosses, axes: Axes) -> None:
    if found is None:
        axes.set_axis_off()
        said(axes, "nothing was drawn")
    else:
        axes.imshow(found.pixels, interpolation="nearest", aspect="equal")
        axes.set_anchor("NW")
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.set_yticks(list(found.middles.values()), list(found.middles))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.add_collection(LineCollection(found.given_ends, colors="#D55E00", linewidths=scaled(0.8), zorder=3), autolim=False)
    _name_untrained(axes, failed)


def _untrained(findings: Findings, groups: Sequence[Section], lacks: Callable[[CellSummary], str]) -> _Crosses:
    """Return the words for the legend on each method that failed in some section; `lacks` says what an ok cell lacks."""

    def why(cell: CellSummary) -> str:
        return lacks(cell) if cell.ok else f"{short(cell.status)}: {shorten(cell.reason, 60)}"

    every = grouped((cell.cell.label, (group, why(cell))) for group in groups for cell in group.summaries)
    found, looks = {}, run_looks(findings)
    for label, cells in every.items():
        failed = [(group, words) for group, words in cells if words]
        # where the method failed in some sections only, which
        said = [words if len(failed) == len(cells) else f"{words} ({where(group)})" for group, words in failed]
        if said:
            found[f"{findings.plot_names[label]}: {'; '.join(dict.fromkeys(said))}"] = looks[label].color
    return found


def _name_untrained(axes: Axes, failed: _Crosses) -> None:
    """Give the legend the methods without a trained model, by a cross."""
    cross: Any = {"marker": "x", "linestyle": "", "markersize": scaled(4.0), "markeredgewidth": scaled(1.2)}
    for words, color in failed.items():
        axes.plot([], [], color=color, label=named(words), **cross)
