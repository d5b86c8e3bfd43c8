"""The roofline figure: how fast each cell computes, against what it does for each byte, under the roof of its device.

Williams, Waterman and Patterson 2009. A larger marker is a longer N; a ring marks what lies above the roof.
"""

import math
from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes

from attnbench.analyze.quantities import TIME, Unit
from attnbench.analyze.roofline import Placed, placed
from attnbench.analyze.sections import Section, grouped
from attnbench.analyze.statistics import Estimate
from attnbench.report.conditions import device_name, measured, on_each_device, replication
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, by_workload, text
from attnbench.report.drawing.lines import heading_of, parts, points, second_line, where
from attnbench.report.drawing.panels import Panel, figures, named
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import Look, run_looks, scaled, soft
from attnbench.report.drawing.ticks import number_across
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import written
from attnbench.schema.errand import Roof
from attnbench.schema.units import length

_SMALLEST, _LARGEST, _RING = 2.2, 5.0, 3.2
_Stands = dict[str, list[tuple[int, Placed]]]
"""By label, each length and where its cell stands."""


def roofline(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw a figure for each workload, a panel for each section, of cells that have costs, times and a roof."""
    if not any(run.surroundings.roof for run in on_each_device(findings)):
        raise CannotDrawError("the run has no roof: its large product and its large copy were not measured")
    if not findings.run.costs:
        raise CannotDrawError("none of the run's methods says what it costs in FLOPs and bytes")
    otherwise, found = "no cell of the run has both a time and a cost in FLOPs and bytes", []
    for sections in by_workload(findings, lambda s: s.workload.is_timed and _stands(findings, s), otherwise):
        members = [part for section in sections for part in parts(section, sheet.methods) if _stands(findings, part)]
        conditions, looks = list(dict.fromkeys(section.conditions for section in members)), run_looks(findings)
        panels = []
        for section, place in zip(members, where(members), strict=True):
            first = section.summaries[0]
            roof = findings.run.on(first.environment).surroundings.roof[first.cell.ceiling]
            stands = _stands(findings, section)
            draw = partial(_draw, stands, roof, looks, findings.plot_names, section.lengths)
            names = (*(findings.plot_names[label] for label in stands), "N = 512", "N = 64k", "above the roof")
            head = heading_of(section, conditions, titled=sheet.titled)
            panels.append(Panel(head, draw, *place, "executed FLOP/s", Unit.FLOP_RATE, None, names))
        workload = sections[0].workload
        drawn = figures(panels, sheet, f"{workload.words}: roofline", second_line(findings, conditions))
        above = any(at.above for section in members for own in _stands(findings, section).values() for _, at in own)
        seen = [
            f"{workload.words}: executed FLOPs per second against executed FLOPs per byte of least traffic, by "
            f"each method's cost; both axes logarithmic. {device_name(findings, members)}.",
            "A marker is a cell, the larger the longer N; cells of one method are joined by rising N.",
            "The roof: a large matrix product and a large copy, the highest measured here.",
            "Ringed: above it, which is honest where what a call touches stays in cache (the large copy does not), and else an "
            "error of measurement or cost."
            if above
            else "",
            replication([cell for section in members for cell in section.summaries], findings.quantities[TIME]),
        ]
        found.append(Drawing(workload.value, drawn, text(seen, measured(findings, members))))
    return found


def _stands(findings: Findings, section: Section) -> _Stands:
    every = ((label, cell, placed(cell, findings.run)) for label, series in section.series.items() for cell in series)
    return grouped((label, (cell.cell.problem.N, at)) for label, cell, at in every if at and at.flops and at.traffic)


def _draw(
    stands: _Stands, roof: Roof, looks: dict[str, Look], names: dict[str, str], lengths: Sequence[int], axes: Axes
) -> None:
    ridge = roof.flops_per_second / roof.bytes_per_second
    every = [at.intensity for own in stands.values() for _, at in own]
    left, right = min([ridge, *every]) / 1.5, max([ridge, *every]) * 1.5
    number_across(axes, Unit.FACTOR, left, right, "executed FLOPs per byte of least traffic")
    rates = [at.flops_per_second for own in stands.values() for _, at in own]
    axes.set_ylim(min([roof.flops_per_second, *rates]) / 1.6, max([roof.flops_per_second, *rates]) * 2.5)
    allowed = [left * roof.bytes_per_second, roof.flops_per_second, roof.flops_per_second]
    axes.plot([left, ridge, right], allowed, "-", color=soft(), linewidth=scaled(1.0), zorder=1.5)
    speeds = f"{written(roof.flops_per_second, Unit.FLOP_RATE)}, {written(roof.bytes_per_second, Unit.BYTE_RATE)}"
    axes.text(0.98, 0.98, f"roof: {speeds}", transform=axes.transAxes, ha="right", va="top", color=soft())

    span = math.log(lengths[-1] / lengths[0]) or 1.0

    def size(N: int) -> float:
        return _SMALLEST + (_LARGEST - _SMALLEST) * math.log(N / lengths[0]) / span

    for label, own in stands.items():
        pairs = [(Estimate.exact(at.intensity), Estimate.exact(at.flops_per_second)) for _, at in own]
        points(axes, pairs, looks[label], names[label], sizes=[size(N) for N, _ in own], joined=True)
        for N, at in own:
            if at.above:
                _dot(axes, size(N) + _RING, "", [at.intensity], [at.flops_per_second])
    for N in dict.fromkeys((lengths[0], lengths[-1])):
        axes.plot([], [], "o", color=soft(), markersize=scaled(size(N)), label=named(f"N = {length(N)}"))
    if any(at.above for own in stands.values() for _, at in own):
        _dot(axes, _SMALLEST + _RING, named("above the roof"), [], [])


def _dot(axes: Axes, size: float, label: str, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(x, y, "o", color=soft(), markersize=scaled(size), markerfacecolor="none", label=label, zorder=5)
