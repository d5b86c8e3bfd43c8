"""Figures of one line a method over length: any figure of a cell, decoding with its state, and the ratio to a baseline."""

from collections.abc import Sequence
from dataclasses import replace

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import STATE_BYTES, TIME, Quantity, Unit, present
from attnbench.analyze.scaling import exponent
from attnbench.analyze.sections import Section, stops
from attnbench.analyze.speedup import baseline, speedup
from attnbench.analyze.statistics import Estimate
from attnbench.report.conditions import device_name, meaning, measured, replication
from attnbench.report.drawing.kinds import Drawing, by_workload, text
from attnbench.report.drawing.lines import Plotted, over_length, second_line
from attnbench.report.drawing.panels import figures
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.figure import NO_BASELINE, has_baseline
from attnbench.report.text.numbers import heading
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import GRADIENT_ROUNDING, ROUNDING


def figure(findings: Findings, name: str, sheet: Sheet) -> list[Drawing]:
    """Draw one figure of the vocabulary against length, a drawing for each workload that has it."""
    quantity = findings.quantities[name]
    otherwise = f"no cell of the run has a figure of {quantity.title}"
    members = by_workload(findings, lambda section: findings.shows(section, quantity), otherwise)
    return [_drawing(findings, own, [quantity], sheet) for own in members]


def scaling(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw time against length; decoding and generating have a figure of their own."""
    otherwise = "the run times neither a forward nor a backward; its suite would say workloads: [forward]"
    members = by_workload(findings, lambda s: s.workload.is_timed and not s.workload.keeps_state, otherwise)
    return [_drawing(findings, own, [findings.quantities[TIME]], sheet) for own in members]


def decode(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw time per token, or per sequence that is generated, beside the state that is kept."""
    otherwise = "the run decodes nothing; its suite would say workloads: [decode], or generate"
    shown = [findings.quantities[name] for name in (TIME, STATE_BYTES)]
    members = by_workload(findings, lambda section: section.workload.keeps_state, otherwise)
    return [_drawing(findings, own, shown, sheet) for own in members]


def numerics(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw how far outputs, and gradients where some method has them, are rounded from their definition."""
    otherwise = "the run has no numerics; its suite would say workloads: [numerics]"
    (own,) = by_workload(findings, lambda section: section.workload is Workload.NUMERICS, otherwise)
    known = [findings.quantities[name] for name in (ROUNDING, GRADIENT_ROUNDING)]
    return [_drawing(findings, own, present(known, [cell for s in own for cell in s.summaries]) or known[:1], sheet)]


def _drawing(
    findings: Findings,
    sections: Sequence[Section],
    shown: Sequence[Quantity],
    sheet: Sheet,
    curves: Sequence[Plotted] = (),
    about: Sequence[str] = (),
) -> Drawing:
    """Draw figures of one workload; or other curves that are read off them, with what the caption has to say about these."""
    workload = sections[0].workload
    curves = curves or [Plotted.of(each, workload) for each in shown]
    panels = over_length(findings, sections, curves, sheet)
    title = workload.words + (f": {panels[0].up}" if len(shown) == 1 else "")
    second = second_line(findings, list(dict.fromkeys(section.conditions for section in sections)))
    cells, titles = [cell for section in sections for cell in section.summaries], [heading(each, workload) for each in shown]
    axes = f"{', '.join(titles)} against length N, both axes logarithmic"
    seen = [f"{workload.words}: {axes}. {device_name(findings, sections)}.", *about]
    series = [own for section in sections for own in section.series.values()]
    every = (point for each in curves for own in series for point in each.points(own).items())
    if ranged := {N for N, found in every if not found.is_exact}:
        # a band lies between lengths; a single one has a bar alone
        seen.append(f"{'Shaded' if len(ranged) > 1 else 'Upright'}: the range of the replicates.")
    if sheet.failures and any(map(stops, series)):
        seen.append("Above the panel: from which length on methods have no number, and why.")
    if len(panels) == 1 and any(each.fitted and exponent(own, each.fitted) for each in curves for own in series):
        seen.append("N^x: fitted over the upper half of a method's lengths, at least three.")
    values = ((cell.cell.label, each.read(cell)) for each in curves for cell in cells)
    if zero := dict.fromkeys(findings.plot_names[label] for label, value in values if value is not None and value.value <= 0):
        seen.append(f"A 0 has no place on a logarithmic axis: lines break there, and no N^x spans one ({', '.join(zero)}).")
    seen += [line for each in shown for line in (meaning(each, cells), replication(cells, each))]
    return Drawing(workload.value, figures(panels, sheet, title, second), text(seen, measured(findings, sections)))


def ratio(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw time over that of the baseline: a method that the suite names, else the strongest exact softmax."""
    found = []
    for sections in by_workload(findings, has_baseline, NO_BASELINE):
        bases = [(section, base) for section in sections if (base := baseline(section))]
        others = [
            replace(section, summaries=tuple(s for s in section.summaries if s.cell.label != base)) for section, base in bases
        ]
        each = dict.fromkeys(f"{findings.plot_names[base]} ({s.mask}, {s.conditions})" for s, base in bases)
        about = (
            f"Drawn is the time over that of a baseline: {'; '.join(each)}. Replicates are paired by number; below the line "
            "at 1 a method is faster. There is no point where one of the two has no time."
        )
        found.append(_drawing(findings, others, [findings.quantities[TIME]], sheet, [_over(findings, bases)], [about]))
    return found


def _over(findings: Findings, bases: Sequence[tuple[Section, str]]) -> Plotted:
    """Plot time over that of the baseline, replicates paired."""
    names = dict.fromkeys(findings.plot_names[base] for _, base in bases)
    against = {
        summary.cell.key: section.at(base, summary.cell.problem.N) for section, base in bases for summary in section.summaries
    }

    def read(cell: CellSummary) -> Estimate | None:
        base = against.get(cell.cell.key)
        # a speed-up of the method over the baseline, upside down
        return speedup(cell, base) if base is not None else None

    title = f"time over that of {next(iter(names))}" if len(names) == 1 else "time over that of the baseline"
    return Plotted(title, read, Unit.FACTOR, level=1.0)
