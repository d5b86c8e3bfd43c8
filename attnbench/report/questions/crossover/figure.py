"""The picture of crossovers: the ratio of two methods against length, a panel a section, with the interval of each crossing."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import TIME, Unit, recorded
from attnbench.analyze.sections import Section, grouped
from attnbench.analyze.speedup import baseline
from attnbench.analyze.verdict import ratio
from attnbench.report.conditions import device_name, measured, replication
from attnbench.report.drawing.images import images
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, by_workload, text
from attnbench.report.drawing.lines import Note, gutter, second_line
from attnbench.report.drawing.panels import Panel, figures, named
from attnbench.report.drawing.sheet import FOLDER, Sheet
from attnbench.report.drawing.style import Look, applied, run_looks, said, scaled, soft
from attnbench.report.drawing.ticks import lengths_across
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.table import lines, rounded
from attnbench.report.text.statuses import short
from attnbench.schema.units import counted

NO_BASELINE = "no exact softmax attention has times beside another method; the suite's report.baselines may name another"


def crossover(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw time over that of the baseline, a figure for each workload; of many methods those that cross come first."""
    time = recorded(findings.summaries).get(TIME)
    if time is None:
        raise CannotDrawError("no cell of the run has a time")
    found = []
    for sections in by_workload(findings, has_baseline, NO_BASELINE):
        every, shown = list[Versus](), list[Versus]()
        for section in sections:
            base = baseline(section)
            pairs = [Versus(section, label, base, time) for label in section.series if base and label != base]
            # those that cross, those that can be compared, the others; each in suite order
            ranked = sorted(pairs, key=lambda versus: (not versus.crossover.crossings, not versus.crossover.lengths))
            every += pairs
            shown += [versus for versus in pairs if versus in ranked[: sheet.methods]]
        left = len(every) - len(shown)
        seen = [
            f"{sections[0].workload.words}: time of each method over that of its baseline against length N, both axes "
            f"logarithmic; below 1 the method is ahead. {device_name(findings, sections)}.",
            "Thin bars: 95 % interval of a ratio. Thick bars on the line at 1: 95 % interval of the N at which the two "
            "change places, which is noted above the panel; faint and without a note, the lengths between which they do.",
            f"Not drawn: {counted(left, 'more pair')}; pairs that change places come first." if left else "",
            replication([cell for versus in shown for cell in versus.cells], findings.quantities[TIME]),
        ]
        # where each pair changes places takes a line a pair, which is too long for a caption
        caption = text(seen, [*(line.strip() for line in lines(findings, shown)), *measured(findings, sections)])
        found.append(Drawing(sections[0].workload.value, _figures(findings, shown, sheet), caption))
    return found


def has_baseline(section: Section) -> bool:
    """Say whether methods are timed beside one that they can be compared with."""
    return section.workload.is_timed and len(section.series) > 1 and baseline(section) is not None


def crossover_plot(findings: Findings, compared: Sequence[Versus], form: str) -> bytes:
    """Return pairs as png, svg or pdf; the same run gives the same bytes."""
    with applied(FOLDER.settings):
        (picture,) = _figures(findings, compared, FOLDER)
        return images(picture, (form,))[form]


def _figures(findings: Findings, compared: Sequence[Versus], sheet: Sheet) -> list[Figure]:
    """Draw a panel for each section that has pairs."""
    workloads = list(dict.fromkeys(versus.section.workload for versus in compared))
    overs = list(dict.fromkeys(versus.over for versus in compared))
    quantity = compared[0].quantity
    what = f"{quantity.title}{f' ({quantity.about})' if quantity.about else ''}"
    what = f"{what} over that of {findings.plot_names[overs[0]]}" if len(overs) == 1 else f"ratio of {what}"
    looks, by_section = run_looks(findings), grouped((id(versus.section), versus) for versus in compared)
    panels: list[Panel] = []
    for own in by_section.values():
        section, names = own[0].section, []
        for versus in own:
            # the method, or both; where nothing can be drawn, why not
            both = f" / {findings.plot_names[versus.over]}" if len(overs) > 1 else ""
            statuses = dict.fromkeys(short(status) for gap in versus.gaps.values() for status in gap if status)
            why = "" if versus.crossover.lengths else f": {', '.join(statuses)}"
            names.append(f"{findings.plot_names[versus.of]}{both}{why}")
        workload = "" if sheet.titled and len(workloads) == 1 else f"{section.workload.words}, "
        head = f"{workload}{section.mask}, {section.conditions}"
        draw = partial(_draw, section, own, looks, names)
        panels.append(Panel(head, draw, *divmod(len(panels), 2), what, Unit.FACTOR, None, tuple(names)))
    title = f"{workloads[0].words}: {what}" if len(workloads) == 1 else what
    side, ahead = "above" if quantity.more_is_better else "below", "a method" if len(overs) == 1 else "the first"
    return figures(panels, sheet, title, f"{side} 1 {ahead} is ahead; bars: 95 %; {second_line(findings, [])}")


def _draw(section: Section, own: Sequence[Versus], looks: dict[str, Look], names: Sequence[str], axes: Axes) -> float:
    lengths_across(axes, section.lengths)
    axes.axhline(1.0, color=soft(), linewidth=scaled(0.8), zorder=1)
    notes = []
    for versus, name in zip(own, names, strict=True):
        look, values, at = looks[versus.of], versus.quantity.values, section.at
        found = {N: ratio(values(at(versus.over, N)), values(at(versus.of, N)), paired=True) for N in versus.crossover.lengths}
        axes.plot(list(found), [each.value for each in found.values()], label=named(name), zorder=3, **look.drawn)
        for N, each in found.items():
            # the interval of two or three replicates may reach out of all proportion
            if each.interval is not None and each.interval.high <= 4 * each.value:
                ends = each.interval.low, each.interval.high
                axes.plot([N, N], ends, "-", color=look.color, linewidth=scaled(0.9), zorder=2)
        for crossing in versus.crossover.crossings:
            # the interval; without one, faint, the lengths between which the two change places
            across = (crossing.interval.low, crossing.interval.high) if crossing.interval else crossing.bracket
            thick: Any = {"linewidth": scaled(4), "solid_capstyle": "butt", "zorder": 4}
            axes.plot(across, [1, 1], "-", color=look.color, alpha=0.45 if crossing.interval else 0.18, **thick)
            if crossing.interval is not None:
                notes.append(Note(crossing.length, rounded(crossing.length), (look,)))
    if not any(versus.crossover.lengths for versus in own):
        said(axes, "nothing to compare")
    return gutter(axes, notes)
