"""Findings: what every table, plot and text of one run is made from, computed once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.cells import CellSummary, summarize
from attnbench.analyze.headline import Statement, ranked
from attnbench.analyze.main_counter import MainCounter, main_counter
from attnbench.analyze.sections import Section, sections
from attnbench.report.text.names import drawable, short_names
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo


@dataclass(frozen=True)
class Findings:
    """A run, its cells, its sections, and the memory counter that is shown (None where none was read)."""

    run: RunInfo
    summaries: tuple[CellSummary, ...]
    sections: tuple[Section, ...]
    counter: MainCounter | None
    rivals: tuple[str, ...] = ()
    """Labels that figures tell apart from each other; where there are none, those of the whole run."""

    @classmethod
    def of(cls, run: RunInfo, records: Iterable[Record]) -> "Findings":
        """From the records alone; any number of them, also none."""
        return cls.over(run, summarize(run.cells, records))

    @classmethod
    def over(cls, run: RunInfo, summaries: Sequence[CellSummary]) -> "Findings":
        """From what the records came to."""
        return cls(run, tuple(summaries), tuple(sections(summaries, run.suite.axes)), main_counter(summaries))

    @cached_property
    def statements(self) -> list[tuple[Section, Statement]]:
        """All sections with what they amount to, the most telling first."""
        suite = self.run.suite
        return ranked(self.sections, suite.report.baselines, causal_first=suite.axes.causal[0])

    @property
    def labels(self) -> list[str]:
        """All methods with their parameters, in suite order."""
        return list(dict.fromkeys(s.cell.label for s in self.summaries))

    @cached_property
    def names(self) -> dict[str, str]:
        """By label, what tables call the method: on one line and not too long; table.csv has it in full."""
        return short_names(self.labels, 48)

    @cached_property
    def plot_names(self) -> dict[str, str]:
        """By label, what figures call the method: shorter, and only of letters that their font has."""
        return {label: drawable(name) for label, name in short_names(self.labels, 40).items()}

    def tier(self, summary: CellSummary) -> str:
        """How the method is implemented; empty where it was never described."""
        description = self.run.methods.get(summary.cell.method)
        return description.tier if description else ""

    def paper(self, summary: CellSummary) -> str:
        """The method's paper; empty where it was never described."""
        description = self.run.methods.get(summary.cell.method)
        return description.paper if description else ""
