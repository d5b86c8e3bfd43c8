"""The cells that have a time, as all formats need them; and those that have none, with the reason."""

from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.statistics import Interval
from attnbench.report.exports.cell_names import cell_name
from attnbench.report.exports.exchange import ExportError, Source
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons


@dataclass(frozen=True)
class Entry:
    """Time and memory of one cell, per sample of the batch as in the tables, so that batches may differ from run to run."""

    summary: CellSummary
    bytes: float | None
    """By the run's main counter; None where it was not read."""

    @cached_property
    def name(self) -> str:
        """The same in every run."""
        return cell_name(self.summary.cell)

    @cached_property
    def medians(self) -> tuple[float, ...]:
        """Seconds, one a replicate, by rising replicate number."""
        return tuple(self.summary.times[i] for i in sorted(self.summary.times))

    @property
    def seconds(self) -> float:
        """Median of the replicate medians."""
        assert self.summary.time is not None
        return self.summary.time.value

    @property
    def interval(self) -> Interval | None:
        """Of the replicate medians; None of a single one, of whose spread nothing is known."""
        return self.summary.time.interval if self.summary.time is not None and len(self.medians) > 1 else None


def timed(findings: Findings) -> list[Entry]:
    """All cells that have a time."""
    counter = findings.counter
    return [Entry(s, counter.per_sample(s) if counter else None) for s in findings.summaries if s.ok and s.medians]


def timed_or_refused(source: Source) -> list[Entry]:
    """For formats that cannot be empty; raises ExportError where no cell has a time, with the reasons."""
    entries = timed(source.findings)
    if not entries:
        raise ExportError("\n  ".join([f"run {source.findings.run.id} has no cell with a time", *notes(source.findings)]))
    return entries


def without_numbers(findings: Findings) -> list[dict[str, str]]:
    """Name, status and reason of each cell that has no numbers."""
    failed = [s for s in findings.summaries if not s.ok]
    return [{"name": cell_name(s.cell), "status": s.status, "reason": one_line(s.reason)} for s in failed]


def notes(findings: Findings, word: str = "left out") -> tuple[str, ...]:
    """The cells that have no time, and what has become of those that failed."""
    untimed = sum(s.ok and not s.medians for s in findings.summaries)
    scored = [f"left out: {untimed} cells that are scored and not timed"] if untimed else []
    return (*(f"{word}: {line}" for line in reasons(findings.summaries)), *scored)
