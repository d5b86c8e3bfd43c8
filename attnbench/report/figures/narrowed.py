"""Findings of a part of a run: some of its workloads, some of its methods in an order of one's own."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import sections
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload


def narrowed(findings: Findings, workloads: Sequence[Workload], labels: Sequence[str]) -> Findings:
    """All of what is not named; fidelity stays, for it is what the others are weighed against.

    Methods that are named are told apart from each other alone, and not from all others of the run.
    """
    place = {label: i for i, label in enumerate(labels or findings.labels)}

    def belongs(summary: CellSummary) -> bool:
        workload = summary.cell.workload
        return summary.cell.label in place and (not workloads or workload in workloads or not workload.is_timed)

    kept = sorted(filter(belongs, findings.summaries), key=lambda summary: place[summary.cell.label])
    found = tuple(sections(kept, findings.run.suite.axes))
    return Findings(findings.run, tuple(kept), found, findings.counter, tuple(labels))
