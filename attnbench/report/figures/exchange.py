"""Memory against time: what a method takes of both under each set of conditions, such as with and without checkpointing."""

from collections.abc import Sequence
from functools import partial
from itertools import product

from matplotlib.axes import Axes

from attnbench.analyze.quantities import MEMORY, TIME
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate
from attnbench.report.conditions import device_name, meaning, measured, replication
from attnbench.report.drawing.kinds import CannotDrawError, Drawing, by_workload, text
from attnbench.report.drawing.lines import points, second_line
from attnbench.report.drawing.panels import Panel, figures, named
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import run_looks, scaled, soft
from attnbench.report.drawing.ticks import number_across
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import heading
from attnbench.schema.units import length

_SMALLEST, _LARGEST = 2.6, 5.4
_OTHERWISE = (
    "the run has no time and memory under two sets of conditions; its suite would say training: {recompute: [false, true]}, or "
    "give another axis two values"
)
_Pairs = dict[str, list[tuple[tuple[Estimate, Estimate], float]]]
"""By label, the time and the memory under each set of conditions, and the size of the marker that stands for these."""


def memory_against_time(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw a figure a workload, a panel a mask, length and device, of a run that varies a condition beside the length."""
    workloads = by_workload(findings, lambda section: section.workload.is_timed, _OTHERWISE)
    drawings = [drawing for sections in workloads if (drawing := _drawing(findings, sections, sheet))]
    if not drawings:
        raise CannotDrawError(_OTHERWISE)
    return drawings


def _pairs(findings: Findings, sections: Sequence[Section], N: int, sizes: dict[str, float]) -> _Pairs:
    """Return time and memory of the cells of one length that have both."""
    found: _Pairs = {}
    for section in sections:
        for label in section.series:
            time, memory = (findings.quantities[name].estimate(section.at(label, N)) for name in (TIME, MEMORY))
            if time is not None and memory is not None and time.value > 0 and memory.value > 0:
                found.setdefault(label, []).append(((time, memory), sizes[section.conditions]))
    return found


def _drawing(findings: Findings, sections: Sequence[Section], sheet: Sheet) -> Drawing | None:
    """Draw one workload; None where no device has two sets of conditions, or no cell has both figures."""
    places = {section.conditions: findings.place(section.summaries[0]) for section in sections}
    devices = list(dict.fromkeys(places.values()))
    if len(places) == len(devices):
        return None
    if len(devices) == 1:
        # the title names it for all panels
        places, devices = dict.fromkeys(places, ""), [""]
    parts = {words: [part for part in words.split(", ") if part not in own.split(", ")] for words, own in places.items()}
    common = [part for part in next(iter(parts.values())) if all(part in each for each in parts.values())]
    differing = {words: ", ".join(part for part in each if part not in common) for words, each in parts.items()}
    # the first set of conditions has the largest marker
    sets = list(dict.fromkeys(differing.values()))
    step = (_LARGEST - _SMALLEST) / (len(sets) - 1)
    sizes = {words: _LARGEST - sets.index(own) * step for words, own in differing.items()}
    workload, looks = sections[0].workload, run_looks(findings)
    time, memory = (findings.quantities[name] for name in (TIME, MEMORY))
    across, up = heading(time, workload), heading(memory, workload)

    def draw(pairs: _Pairs, axes: Axes) -> None:
        times, memories = ([end for own in pairs.values() for pair, _ in own for end in pair[which].ends] for which in (0, 1))
        number_across(axes, time.unit, min(times) / 1.3, max(times) * 1.3, across)
        axes.set_ylim(min(memories) / 1.3, max(memories) * 1.3)
        for label, own in pairs.items():
            name = findings.plot_names[label]
            points(axes, [pair for pair, _ in own], looks[label], name, sizes=[size for _, size in own], joined=True)
        for words, size in sizes.items():
            axes.plot([], [], "o", color=soft(), markersize=scaled(size), label=named(differing[words]))

    panels: list[Panel] = []
    lengths = sorted({N for section in sections for N in section.lengths})
    for causal, N, device in product((True, False), lengths, devices):
        # cells of unlike devices are not joined
        alike = [section for section in sections if section.causal is causal and places[section.conditions] == device]
        if pairs := _pairs(findings, alike, N, sizes):
            names = (*(findings.plot_names[label] for label in pairs), *sets)
            head = ", ".join(filter(None, (alike[0].mask, f"N = {length(N)}", device)))
            panels.append(Panel(head, partial(draw, pairs), *divmod(len(panels), 2), up, memory.unit, None, names))
    if not panels:
        return None
    cells = [cell for section in sections for cell in section.summaries]
    drawn = figures(panels, sheet, f"{workload.words}: memory against time", second_line(findings, [", ".join(common)]))
    seen = [
        f"{workload.words}: {up} against {across}, both axes logarithmic; of both less is better. {device_name(findings)}.",
        f"The cells of one method are joined, from the largest marker to the smallest: {'; '.join(sets)}.",
        "Bars: the range of the replicates; a count of bytes has none.",
        *(line for each in (time, memory) for line in (meaning(each, cells), replication(cells, each))),
    ]
    return Drawing(workload.value, drawn, text(seen, measured(findings, sections)))
