"""Figures of one line a method over length: time, memory, decoding, and the ratio to a baseline."""

from collections.abc import Sequence
from dataclasses import replace

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import speedup
from attnbench.analyze.versus import baseline
from attnbench.report.conditions import memory_notes, state_notes
from attnbench.report.drawing.caption import caption, text
from attnbench.report.drawing.lines import quantity
from attnbench.report.drawing.lines.over_length import over_length
from attnbench.report.drawing.lines.quantity import Kind, Point, Quantity
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.ticks import factor_ticks
from attnbench.report.figures.kinds import CannotDrawError, Drawing, by_workload
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload


def scaling(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Time per sample; of decoding and generating see `decode`."""
    members = by_workload(findings, lambda w: w.is_timed and not w.keeps_state)
    if not members:
        raise CannotDrawError("the run times neither a forward nor a backward; its suite would say workloads: [forward]")
    return [_drawing(findings, own, quantity.time(workload), sheet) for workload, own in members.items()]


def memory(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """The run's one counter, of every workload that has a time."""
    if findings.counter is None:
        raise CannotDrawError(memory_notes(findings, findings.summaries)[0].removeprefix("Memory: ").removesuffix("."))
    members = by_workload(findings, lambda workload: workload.is_timed)
    return [_drawing(findings, own, quantity.memory(findings.counter, w), sheet) for w, own in members.items()]


def decode(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Time per token, or per sequence that is generated, beside the state that is kept."""
    members = by_workload(findings, lambda w: w.keeps_state)
    if not members:
        raise CannotDrawError("the run decodes nothing; its suite would say workloads: [decode], or generate")
    return [_decoding(findings, workload, own, sheet) for workload, own in members.items()]


def _decoding(findings: Findings, workload: Workload, sections: list[Section], sheet: Sheet) -> Drawing:
    shown = [quantity.time(workload), quantity.state()]
    cells = [summary for section in sections for summary in section.summaries]
    words = caption(findings, sections, shown[0]) + text(state_notes(cells))
    return Drawing(workload.value, over_length(findings, sections, shown, sheet), words)


def ratio(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Time over that of the baseline: a method that the suite names, else the strongest exact softmax."""
    found = []
    for sections in by_workload(findings, lambda workload: workload.is_timed).values():
        bases = [(section, base) for section in sections if (base := _base(findings, section)) is not None]
        if bases:
            shown = _over(findings, bases)
            others = [_without(section, base) for section, base in bases]
            found.append(_drawing(findings, others, shown, sheet, [_said(findings, bases)]))
    if not found:
        raise CannotDrawError(
            "no exact softmax attention has times beside another method; the suite's report.baselines may name another"
        )
    return found


def _base(findings: Findings, section: Section) -> str | None:
    """Where there is another method to set against it."""
    base = baseline(section, findings.run.suite.report.baselines)
    return base if base is not None and len(section.series) > 1 else None


def _without(section: Section, label: str) -> Section:
    return replace(section, summaries=tuple(s for s in section.summaries if s.cell.label != label))


def _over(findings: Findings, bases: Sequence[tuple[Section, str]]) -> Quantity:
    """Replicates paired, per sample; above 1 the method takes longer."""
    names = dict.fromkeys(findings.plot_names[base] for _, base in bases)
    against = {
        summary.cell.key: section.at(base, summary.cell.problem.N) for section, base in bases for summary in section.summaries
    }

    def point(cell: CellSummary) -> Point | None:
        base = against.get(cell.cell.key)
        # a speed-up of the method over the baseline, upside down
        found = speedup(cell, base) if base is not None else None
        return Point(cell.cell.problem.N, found) if found else None

    title = f"time over that of {next(iter(names))}" if len(names) == 1 else "time over that of the baseline"
    return Quantity(title, point, lambda _: None, factor_ticks, Kind.RATIO, level=1.0)


def _said(findings: Findings, bases: Sequence[tuple[Section, str]]) -> str:
    each = dict.fromkeys(f"{findings.plot_names[base]} ({section.mask}, {section.conditions})" for section, base in bases)
    return (
        f"Baseline: {'; '.join(each)}. Replicates paired by number; below the line at 1 a method is faster; "
        "no point where one of the two has no time."
    )


def _drawing(findings: Findings, sections: list[Section], shown: Quantity, sheet: Sheet, more: Sequence[str] = ()) -> Drawing:
    words = caption(findings, sections, shown) + text(more)
    return Drawing(sections[0].workload.value, over_length(findings, sections, [shown], sheet), words)
