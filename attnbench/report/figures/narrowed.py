"""Findings of a part of a run: some of its workloads, some of its methods in an order of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnbench.analyze.cells import CellSummary
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload


def narrowed(findings: Findings, workloads: Sequence[Workload], labels: Sequence[str]) -> Findings:
    """Keep what is named, or all where nothing is; fidelity stays, for it is what the others are weighed against."""
    place = {label: i for i, label in enumerate(labels or findings.labels)}

    def belongs(summary: CellSummary) -> bool:
        workload = summary.cell.workload
        return summary.cell.label in place and (not workloads or workload in workloads or not workload.is_timed)

    kept = sorted(filter(belongs, findings.summaries), key=lambda summary: place[summary.cell.label])
    return Findings.over(findings.run, kept)


def relabelled(findings: Findings, labels: Mapping[str, str]) -> Findings:
    """Call methods, by their names or their labels, as it is said here rather than as the suite says."""
    suite = findings.run.suite
    report = suite.report.model_copy(update={"labels": {**suite.report.labels, **labels}})
    run = findings.run.model_copy(update={"suite": suite.model_copy(update={"report": report})})
    return replace(findings, run=run)
