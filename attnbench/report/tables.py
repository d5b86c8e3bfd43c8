"""The tables that a suite asks for."""

from attnbench.analyze.sections import Section
from attnbench.report.findings import Findings
from attnbench.report.pivot_table import memory_table, state_table, time_table
from attnbench.report.speedup_table import speedup_tables
from attnbench.report.summary_table import summary_table
from attnbench.report.table import Table

_KINDS = {"summary": summary_table, "time": time_table, "memory": memory_table, "state": state_table}


def tables(findings: Findings) -> list[Table]:
    """One per kind and section, in the suite's order of kinds; of speed-ups one per baseline, of states in decoding only."""
    wanted = [(kind, section) for kind in findings.run.suite.report.tables for section in findings.sections]
    return [table for kind, section in wanted for table in _of(kind, findings, section)]


def _of(kind: str, findings: Findings, section: Section) -> list[Table]:
    if kind == "speedup":
        return speedup_tables(findings, section)
    return [_KINDS[kind](findings, section)] if kind != "state" or section.workload.decodes else []
