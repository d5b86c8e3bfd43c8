"""The text beside a figure: what is seen, and how it was measured."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.conditions import (
    conditions,
    device_name,
    memory_conditions,
    memory_notes,
    replication,
    state_notes,
)
from attnbench.report.drawing.lines.quantity import Kind, Quantity
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons

RANGES = "Shaded: the range of the replicate medians."
CROSSES = "x: a failure, on the line drawn further; faint ones follow the first."
_EXPONENT = "N^x: fitted over the upper half of a method's lengths, at least three."
_TIMED = (Kind.TIME, Kind.RATIO)


def caption(findings: Findings, members: Sequence[Section], shown: Quantity) -> str:
    """Of the figure of one workload, whose panels are `members`."""
    cells, timed = [summary for section in members for summary in section.summaries], shown.kind in _TIMED
    return text(
        [
            f"{members[0].workload.value}: {shown.title} against length N, both axes logarithmic. {device_name(findings)}.",
            *([RANGES] if timed else []),
            CROSSES,
            *([_EXPONENT] if shown.kind is not Kind.RATIO else []),
            *_numbers(findings, cells, shown.kind),
            *panel_reasons(members),
            *(conditions if timed else memory_conditions)(findings, cells),
        ]
    )


def text(lines: Sequence[str]) -> str:
    """Of a file beside a figure."""
    return "".join(f"{one_line(line)}\n" for line in lines)


def _numbers(findings: Findings, cells: Sequence[CellSummary], kind: Kind) -> list[str]:
    """What was counted, and how often."""
    if kind is Kind.STATE:
        return state_notes(cells)
    return memory_notes(findings, cells) if kind is Kind.MEMORY else replication(cells)


def panel_reasons(members: Sequence[Section]) -> list[str]:
    """Why cells failed: once where it holds in every panel; else with the panel it belongs to."""
    by_panel = [reasons(section.summaries) for section in members]
    found: dict[str, None] = {}
    for section, lines in zip(members, by_panel, strict=True):
        for line in lines:
            everywhere = all(line in others for others in by_panel)
            found[line if everywhere else f"{section.mask}, {section.conditions}: {line}"] = None
    return list(found)
