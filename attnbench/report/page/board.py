"""Several runs as one board: their methods, sections and cells in one order, under common numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import baseline
from attnbench.report.drawing import style
from attnbench.report.findings import Findings
from attnbench.report.page.run_names import run_names
from attnbench.report.text.names import short_names
from attnbench.schema.cell import Workload

MOST = 8
"""Methods that are drawn at first; up to half as many again are all drawn."""


@dataclass(frozen=True)
class Group:
    """The sections of one title, each with the number of its run: what one view of the page shows."""

    workload: Workload
    causal: bool
    conditions: str
    members: tuple[tuple[int, Section], ...]

    @property
    def mask(self) -> str:
        """In words."""
        return self.members[0][1].mask

    @property
    def title(self) -> str:
        """As that of its sections."""
        return self.members[0][1].title

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Of all runs, rising."""
        return tuple(sorted({N for _, section in self.members for N in section.lengths}))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Of all runs, in suite order."""
        return tuple(dict.fromkeys(label for _, section in self.members for label in section.series))


@dataclass(frozen=True)
class Place:
    """A cell, and the numbers of its run, group and method."""

    run: int
    group: int
    method: int
    summary: CellSummary


@dataclass(frozen=True)
class Board:
    """What a page is made from."""

    runs: tuple[Findings, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the runs: what tells them apart, and no two alike."""
        return run_names(self.runs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Of all methods, in the order of the suites."""
        return tuple(dict.fromkeys(label for findings in self.runs for label in findings.labels))

    @cached_property
    def method_names(self) -> dict[str, str]:
        """By label, what the page calls the method."""
        return short_names(self.labels, 48)

    @cached_property
    def looks(self) -> dict[str, style.Look]:
        """By label."""
        return style.looks(self.labels)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """In the order in which the runs have them."""
        found: dict[tuple[Workload, bool, str], list[tuple[int, Section]]] = {}
        for number, findings in enumerate(self.runs):
            for section in (*findings.sections, *_left_over(findings)):
                found.setdefault((section.workload, section.causal, section.conditions), []).append((number, section))
        return tuple(Group(*key, tuple(members)) for key, members in found.items())

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All cells: by group, run and method, and then by rising length."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return tuple(
            Place(run, number, numbers[label], summary)
            for number, group in enumerate(self.groups)
            for run, section in group.members
            for label, series in section.series.items()
            for summary in series
        )

    @cached_property
    def first(self) -> int:
        """The group that is shown first: the one that the sentence of the first run speaks of."""
        leading = [(s.workload, s.causal, s.conditions) for s, _ in self.runs[0].statements[:1]]
        return next((n for n, g in enumerate(self.groups) if (g.workload, g.causal, g.conditions) in leading), 0)

    def tier(self, place: Place) -> str:
        """How the method is implemented."""
        return self.runs[place.run].tier(place.summary)


def telling(group: Group, named: Sequence[str] = ()) -> tuple[str, ...]:
    """The labels that are drawn at first: all where they are few, else the baseline and those of least time.

    Least at the longest length at which the most methods have numbers, in the first run that has any.
    """
    if len(group.labels) <= MOST + MOST // 2:
        return group.labels
    section = next((section for _, section in group.members if section.common_length), None)
    if section is None or section.common_length is None:
        return group.labels[:MOST]
    cells = section.ok_at(section.common_length)
    times = {label: s.time.value for label, s in cells.items() if s.time is not None}
    wanted = [label for label in (baseline(section, named), *sorted(times, key=lambda label: times[label])) if label]
    chosen = set(list(dict.fromkeys(wanted or list(cells)))[:MOST])
    return tuple(label for label in group.labels if label in chosen)


def _left_over(findings: Findings) -> list[Section]:
    """Cells that the suite's rules put into no section; none is dropped."""
    placed = {summary.cell.key for section in findings.sections for summary in section.summaries}
    found: dict[tuple[Workload, bool], list[CellSummary]] = {}
    for summary in findings.summaries:
        if summary.cell.key not in placed:
            found.setdefault((summary.cell.workload, summary.cell.problem.causal), []).append(summary)
    return [Section(workload, causal, "other", tuple(cells)) for (workload, causal), cells in found.items()]
