"""The text beside a figure: what is seen, and how it was measured."""

from collections.abc import Sequence

from attnbench.analyze.sections import Section
from attnbench.report.conditions import conditions, device_name, memory_conditions, memory_notes, replication
from attnbench.report.findings import Findings
from attnbench.report.names import one_line
from attnbench.report.quantity import Quantity
from attnbench.report.statuses import reasons


def caption(findings: Findings, members: Sequence[Section], shown: Quantity) -> str:
    """Of the figure of one workload, whose panels are `members`."""
    cells = [summary for section in members for summary in section.summaries]
    lines = [
        f"{members[0].workload.value}: {shown.title} against length N, both axes logarithmic. {device_name(findings)}.",
        *([] if shown.of_memory else ["Shaded: the range of the replicate medians."]),
        "x: a failure, on the line drawn further; faint ones follow the first.",
        "N^x: fitted over the upper half of a method's lengths, at least three.",
        *(memory_notes(findings, cells) if shown.of_memory else replication(cells)),
        *_reasons(members),
        *(memory_conditions if shown.of_memory else conditions)(findings, cells),
    ]
    return "".join(f"{one_line(line)}\n" for line in lines)


def _reasons(members: Sequence[Section]) -> list[str]:
    """Once where they hold in every panel; else with the panel they belong to."""
    by_panel = [reasons(section.summaries) for section in members]
    found: dict[str, None] = {}
    for section, lines in zip(members, by_panel, strict=True):
        for line in lines:
            everywhere = all(line in others for others in by_panel)
            found[line if everywhere else f"{section.mask}, {section.conditions}: {line}"] = None
    return list(found)
