"""The Pareto figure: what a method loses against what it costs, and which methods no other beats in both."""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attnbench.analyze.best import front, surely_beaten
from attnbench.analyze.quantities import Unit
from attnbench.report.conditions import device_name, meaning, measured, replication
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, text
from attnbench.report.drawing.lines import points, second_line
from attnbench.report.drawing.panels import Panel, figures
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import Look, run_looks, scaled, soft
from attnbench.report.drawing.ticks import number_across
from attnbench.report.figures.tradeoffs import Tradeoff, tradeoffs
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import task_of
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.units import length

_FAINT, _LESS = 0.35, 0.8
_LEAST, _THINNEST = 1e-3, 0.02
"""What the vertical axis spans at least, where all is exact but for rounding; and as a share of the largest loss."""
_FAR = 0.5
"""Where all losses are farther from 0 than this share of the largest, the axis need not begin there."""


def pareto(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw one figure: a row for each loss of each section that has a quality, a column for each cost."""
    rows = tradeoffs(findings)
    if not rows:
        raise CannotDrawError(
            "no cell has a quality, or none that has one has a cost; the suite would say workloads: [forward, fidelity], "
            "[forward, numerics] or [train, generate]"
        )
    looks, conditions = run_looks(findings), list(dict.fromkeys(row[0].section.conditions for row in rows))
    alone = all(len(row) == 1 for row in rows)
    panels = []
    for i, row in enumerate(rows):
        for j, each in enumerate(row):
            task = [task_of(each.section)] if each.section.workload is Workload.TRAIN else []
            own = [each.section.conditions] if len(conditions) > 1 else []
            draw = partial(_draw, each, _reach(row), looks, findings.plot_names)
            names = tuple(findings.plot_names[candidate.label] for candidate in each.candidates)
            head = ", ".join([*task, each.section.mask, *own, f"N = {length(each.N)}"])
            unit = Unit.PLAIN if each.loss.is_rounding else None
            panels.append(Panel(head, draw, *(divmod(i, 2) if alone else (i, j)), each.loss.title, unit, i, names))
    title, second = "pareto: what is lost, and what it costs", second_line(findings, conditions)
    return [Drawing("", figures(panels, sheet, title, second, (3.0, 2.0)), _caption(findings, rows))]


def _reach(row: Sequence[Tradeoff]) -> tuple[float, float]:
    """Return the limits of the vertical axis of a row: from 0 to its largest loss, or from where all of them are far from 0."""
    ends = [end for each in row for candidate in each.candidates for end in candidate.loss.ends]
    if row[0].loss.is_rounding:
        rising = [end for end in ends if end > 0]
        return min(rising) / 1.5, max(rising) * 1.5
    low, top = min(ends), max([_LEAST, *ends])
    low = low if low > _FAR * top else 0.0
    room = max(top - low, _THINNEST * top)
    return low - 0.06 * room, top + 0.12 * room


def _draw(own: Tradeoff, reach: tuple[float, float], looks: dict[str, Look], names: dict[str, str], axes: Axes) -> None:
    candidates, best = own.candidates, front(own.candidates)
    ends = [end for candidate in candidates for end in candidate.cost.ends]
    room = max(1.25, (max(ends) / min(ends)) ** 0.08)
    number_across(axes, own.cost.unit, min(ends) / room, max(ends) * room, own.cost.name)
    axes.set_ylim(*reach)
    if not own.loss.is_rounding:
        up = [value for value in MaxNLocator(5).tick_values(*reach) if max(0.0, reach[0]) <= value <= reach[1]]
        percent = own.loss.unit is Unit.SHARE
        axes.set_yticks(up, [f"{100 * value:.3g}%" if percent else f"{value:.3g}" for value in up])
    for candidate in candidates:
        alpha = 1.0 if candidate in best else _FAINT if surely_beaten(candidate, candidates) else _LESS
        points(axes, [(candidate.cost, candidate.loss)], looks[candidate.label], names[candidate.label], alpha=alpha)
    # what the front allows: from the top down to the cheapest, from each to the next, and from the best to the right
    corners = [(best[0].cost.value, reach[1])]
    for candidate in best:
        corners += [(candidate.cost.value, corners[-1][1]), (candidate.cost.value, candidate.loss.value)]
    x, y = zip(*corners, (axes.get_xlim()[1], best[-1].loss.value), strict=True)
    axes.plot(x, y, "-", color=soft(), linewidth=scaled(0.8), alpha=0.8, zorder=1.5)


def _caption(findings: Findings, rows: Sequence[Sequence[Tradeoff]]) -> str:
    panels = [each for row in rows for each in row]
    seen = [
        f"pareto: {', '.join(dict.fromkeys(each.loss.title for each in panels))} against "
        f"{'; '.join(dict.fromkeys(each.cost.name for each in panels))}; of both less is better. {device_name(findings)}.",
        "Steps: the front, which no method beats in both. Faint: another method is at least as good in both and better in one, "
        "by the intervals.",
        "Bars: the range of the replicates; a count (bytes, FLOPs) has none.",
    ]
    if any(_reach(row)[0] > 0 for row in rows if not row[0].loss.is_rounding):
        seen.append("The vertical axis begins at 0 but where all are far from it.")
    for each in panels:
        drawn, missing = {candidate.label for candidate in each.candidates}, []
        for label in (label for label in each.section.series if label not in drawn):
            # the status that kept it from a point: of the cell that has no quality, or of the one that has no cost
            cell = each.section.at(label, each.N)
            asked = (cell, each.cost.beside(cell)) if cell else ()
            why = next((short(one.status) for one in asked if one and not one.ok), "no such figure")
            missing.append(f"{findings.names[label]} ({why})")
        if missing:
            seen.append(f"No point for {each.cost.name} at N = {length(each.N)}: {', '.join(missing)}.")
    for row in rows:
        loss, cells = row[0].loss, row[0].section.summaries
        seen.append(meaning(loss, cells))
        if loss.name == "missed_mass":
            seen.append("A method that gives every key some weight misses nothing by this measure.")
        seen.append(replication(cells, loss))
    if any(s.cell.workload is Workload.GENERATE for s in findings.summaries):
        seen.append(
            "What generating costs is that of an untrained model of the same shape: speed knows nothing of the weights."
        )
    return text(seen, measured(findings, list({id(row[0].section): row[0].section for row in rows}.values())))
