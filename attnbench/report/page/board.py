"""Several runs side by side: their methods, sections and cells in one order, under common numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section, grouped, sections
from attnbench.analyze.speedup import baseline
from attnbench.report.conditions import commit, short_machine
from attnbench.report.drawing import style
from attnbench.report.findings import Findings
from attnbench.report.text.names import names_of, one_line, shorten
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes

MOST = 8
"""Methods that are drawn at first; up to half as many again are all drawn."""
_LONGEST = 60
_LARGEST = "largest B that fits"


@dataclass(frozen=True)
class Group:
    """The sections of alike cells, each with the number of its run: what one view of the page shows."""

    members: tuple[tuple[int, Section], ...]
    conditions: str
    """The dtype, and those other axes that vary over the page, which a run does not name where it has one value of each."""

    @cached_property
    def section(self) -> Section:
        """The first of them, which says what all have in common: the title, the workload, the mask and the conditions."""
        return replace(self.members[0][1], conditions=self.conditions)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of all runs, rising."""
        return tuple(sorted({N for _, section in self.members for N in section.lengths}))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The methods of all runs, in suite order."""
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
    """The runs that a page is made from, in one order."""

    runs: tuple[Findings, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the runs: what tells them apart, and no two alike."""
        return run_names(self.runs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All methods, in the order of the suites."""
        return tuple(dict.fromkeys(label for findings in self.runs for label in findings.labels))

    @cached_property
    def method_names(self) -> dict[str, str]:
        """By label, what the page calls the method: as the first run does that has it."""
        called = {label: findings.called(label) for findings in reversed(self.runs) for label in findings.labels}
        return names_of({label: called[label] for label in self.labels}, 48)

    @cached_property
    def looks(self) -> dict[str, style.Look]:
        """By label, colour, line and marker."""
        return style.looks(self.labels)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order in which the runs have them. Those of two runs are one where all axes but N are alike."""
        placed = [(number, section) for number, run in enumerate(self.runs) for section in run.sections]
        # named as if all were of one run; the cells of a section differ in nothing else than method and N: one speaks for all
        together = sections([section.summaries[0] for _, section in placed], Axes())
        words = {summary.cell.key: each.conditions for each in together for summary in each.summaries}
        rules = [_batch(self.runs[number].run.suite.axes, section) for number, section in placed]
        found: dict[tuple[Workload, bool, str], list[tuple[int, Section]]] = {}
        for (number, section), rule in zip(placed, rules, strict=True):
            first = section.summaries[0]
            batch = rule if rule == _LARGEST or len(set(rules)) > 1 else ""
            conditions = ", ".join(filter(None, (words[first.cell.key], self.runs[number].place(first), batch)))
            found.setdefault((section.workload, section.causal, conditions), []).append((number, section))
        return tuple(Group(tuple(members), conditions) for (*_, conditions), members in found.items())

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
    def lines(self) -> dict[tuple[int, int, int], list[int]]:
        """By group, run and method: the numbers of its cells, by rising length."""
        return grouped(((place.group, place.run, place.method), number) for number, place in enumerate(self.places))

    @cached_property
    def first(self) -> int:
        """The group that is shown first: the one that the sentence of the first run speaks of."""
        leading = next((section for section, _ in self.runs[0].statements), None)
        groups = (number for number, group in enumerate(self.groups) if any(own is leading for _, own in group.members))
        return next(groups, 0)


def _batch(axes: Axes, section: Section) -> str:
    """Say by which rule B follows from N."""
    cell, tokens = section.summaries[0].cell, axes.tokens[0] if axes.tokens else 1
    if cell.batch is Batch.LARGEST:
        return _LARGEST
    if len(axes.tokens) > 1:
        # a cell may have the batch of several rules, and the conditions of a section end with its own
        return section.conditions.rpartition(", ")[2]
    return f"tokens={tokens}" if any(tokens // N > 1 for N in axes.N) else f"B={cell.problem.B}"


def telling(group: Group) -> tuple[str, ...]:
    """Return the labels that are drawn at first: all where they are few, else the baseline, those of least time, and others.

    The time is that at the longest length at which the most methods have numbers, in the first run that has any.
    """
    if len(group.labels) <= MOST + MOST // 2:
        return group.labels
    section = next((section for _, section in group.members if section.common_length), None)
    if section is None or section.common_length is None:
        return group.labels[:MOST]
    cells = section.ok_at(section.common_length)
    times = {label: s.time.value for label, s in cells.items() if s.time is not None}
    wanted = filter(None, (baseline(section), *sorted(times, key=lambda label: times[label]), *cells))
    chosen = set(list(dict.fromkeys(wanted))[:MOST])
    return tuple(label for label in group.labels if label in chosen)


def run_names(runs: Sequence[Findings]) -> tuple[str, ...]:
    """Name runs by their suite, machine, commit or time, the first that tells all apart; by all that differ where none does.

    Where nothing differs the run's id is its name, and where that is alike too, it is numbered.
    """
    parts = list(zip(*((f.run.suite.name, short_machine(f), commit(f.run), moment(f.run)) for f in runs), strict=True))
    telling = [texts for texts in parts if len(set(texts)) == len(runs) > 1 and all(texts)][:1]
    varying = telling or [texts for texts in parts if len(set(texts)) > 1]
    names = [", ".join(filter(None, texts)) for texts in zip(*varying, strict=True)] or [""] * len(runs)
    names = [shorten(name or findings.run.id, _LONGEST) for name, findings in zip(names, runs, strict=True)]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1))


def moment(run: RunInfo) -> str:
    """Write `2026-01-02 03:04 UTC`, as far as the run says so."""
    date, _, time = one_line(run.started).partition("T")
    return f"{date} {time[:5]} UTC" if time.endswith("+00:00") else f"{date} {time}".strip()
