"""The tables that a suite asks for."""

from attnbench.report.findings import Findings
from attnbench.report.pivot_table import memory_table, state_table, time_table
from attnbench.report.summary_table import summary_table
from attnbench.report.table import Table

_KINDS = {"summary": summary_table, "time": time_table, "memory": memory_table, "state": state_table}


def tables(findings: Findings) -> list[Table]:
    """One per kind and section, in the suite's order of kinds; states are kept in decoding only."""
    return [
        _KINDS[kind](findings, section)
        for kind in findings.run.suite.report.tables
        for section in findings.sections
        if kind != "state" or section.workload.decodes
    ]
