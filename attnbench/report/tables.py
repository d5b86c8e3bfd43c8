"""The tables that a suite asks for."""

from attnbench.analyze.sections import Section
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.tables import score_summary, score_tables
from attnbench.report.questions.growth.pivot import memory_table, state_table, time_table
from attnbench.report.questions.growth.speedup import speedup_tables
from attnbench.report.questions.growth.summary import summary_table
from attnbench.report.questions.learning.generation import generate_tables
from attnbench.report.questions.learning.table import train_tables
from attnbench.report.questions.published.table import published_tables
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload

_KINDS = {"summary": summary_table, "time": time_table, "memory": memory_table, "state": state_table}
_SCORES = {workload.value for workload in Workload if not workload.is_timed}
_SUMMARIES = {Workload.TRAIN: train_tables, Workload.GENERATE: generate_tables}
"""Of workloads with a model around the attention, whose summary is another one."""


def tables(findings: Findings) -> list[Table]:
    """One per kind and section, in the suite's order of kinds, as far as the section has it; of speed-ups one per baseline."""
    return [table for kind in findings.run.suite.report.tables for table in _of_run(kind, findings)]


def _of_run(kind: str, findings: Findings) -> list[Table]:
    """Of every section; only what others printed is held against a run as a whole."""
    if kind == "published":
        return published_tables(findings)
    return [table for section in findings.sections for table in _of(kind, findings, section)]


def _of(kind: str, findings: Findings, section: Section) -> list[Table]:
    if kind in _SCORES or not section.workload.is_timed:
        return _of_scores(kind, findings, section)
    if kind == "summary" and section.workload in _SUMMARIES:
        return _SUMMARIES[section.workload](findings, section)
    if kind == "speedup":
        return speedup_tables(findings, section)
    return [_KINDS[kind](findings, section)] if kind != "state" or section.workload.keeps_state else []


def _of_scores(kind: str, findings: Findings, section: Section) -> list[Table]:
    """Neither times nor bytes."""
    if kind == "summary":
        return [score_summary(findings, section)]
    return score_tables(findings, section) if kind == section.workload.value else []
