"""Speed-ups by length, one table for each baseline."""

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baselines, speedup
from attnbench.report.conditions import notes
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import factor
from attnbench.report.text.per import per
from attnbench.report.text.statuses import short
from attnbench.report.text.table import Table
from attnbench.schema.units import length


def speedup_tables(findings: Findings, section: Section) -> list[Table]:
    """Methods by lengths, over each baseline that has a number at some length."""
    named = findings.run.suite.report.baselines
    labels = [base.cell.label for N in section.lengths for base in baselines(section.ok_at(N).values(), named)]
    return [_table(findings, section, label) for label in dict.fromkeys(labels)]


def _table(findings: Findings, section: Section, baseline: str) -> Table:
    rows = [
        (findings.names[label], findings.tier(series[0]), *(_entry(section, baseline, label, N) for N in section.lengths))
        for label, series in section.series.items()
    ]
    name, what = findings.names[baseline], per(section.workload).removeprefix("per ")
    about = f"Time of {name} over time of the method, of one {what}, replicates paired: above 1 the method is faster."
    return Table(
        title=f"Speed-up over {name}: {section.title}",
        headers=("method", "tier", *(f"N={length(N)}" for N in section.lengths)),
        rows=tuple(rows),
        notes=(about, *notes(findings, section.summaries)),
    )


def _entry(section: Section, baseline: str, label: str, N: int) -> str:
    base, cell = section.at(baseline, N), section.at(label, N)
    if cell is None:
        return ""
    return _words(base, cell) if cell.ok else short(cell.status)


def _words(base: CellSummary | None, cell: CellSummary) -> str:
    if base is cell:
        return "1 (baseline)"
    return factor(speedup(base, cell)) if base is not None and base.ok else "n/a"
