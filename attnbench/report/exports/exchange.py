"""The input and the output of an export: runs, the entries that all formats take from them, JSON and dates."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import TIME, Quantity
from attnbench.analyze.statistics import Estimate, Interval
from attnbench.report.exports.cell_names import cell_name
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons
from attnbench.schema.errors import UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo, devices
from attnbench.schema.units import counted


class ExportError(UsageError):
    """A format that cannot hold these runs; the message says why, and what would be right."""


@dataclass(frozen=True)
class Source:
    """One run; its records too, for formats that hold raw samples."""

    findings: Findings
    records: Sequence[Record] = field(default=(), repr=False)


@dataclass(frozen=True)
class Export:
    """Contents by file name, relative to the folder where there are several; and in words what the format cannot say."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """The folder that an export goes to."""

    known: Mapping[str, bytes]
    """What is there already, of the files that are to be written."""
    repository: str | None
    """The way from there to the git repository; None where none was found."""


def encode(data: object, indent: int | None = 1) -> bytes:
    """Write JSON that every reader accepts: ASCII, and a word such as `inf` in the place of what is no finite number."""
    separators = (",", ":") if indent is None else None
    return (json.dumps(_finite(data), indent=indent, separators=separators, allow_nan=False) + "\n").encode("ascii")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def moment(text: str) -> datetime | None:
    """Read a date in UTC; return None for what is no date."""
    try:
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def started(run: RunInfo) -> datetime:
    """Return when a run was started, which every history needs to know; raise ExportError where it is not known."""
    read = moment(run.started)
    if read is None:
        raise ExportError(f"run {run.id}: run.json: started: {run.started!r} is no date; write it as 2026-01-02T03:04:05+00:00")
    return read


@dataclass(frozen=True)
class Entry:
    """One figure of one cell; times and bytes are those of a sample of the batch, so that batches may differ between runs."""

    summary: CellSummary
    quantity: Quantity
    estimate: Estimate

    @cached_property
    def name(self) -> str:
        """Return the name of the cell, which is the same in every run."""
        return cell_name(self.summary.cell)

    @property
    def figure(self) -> str:
        """Name the figure; memory is named by its counter, for two counters must not share a history."""
        return self.quantity.about or self.quantity.name

    @property
    def value(self) -> float:
        """Return the number, in SI units."""
        return self.estimate.value

    @property
    def replicates(self) -> tuple[float, ...]:
        """Return the numbers of the replicates, by rising replicate number; a single one of what is read once."""
        return tuple(value for _, value in sorted(self.quantity.values(self.summary).items()))

    @property
    def interval(self) -> Interval | None:
        """Return the range; None for a single replicate, about whose spread nothing is known."""
        return self.estimate.interval if len(self.replicates) > 1 else None


def of_cell(findings: Findings, summary: CellSummary) -> list[Entry]:
    """Return an entry for each figure that a cell has."""
    found = ((quantity, quantity.estimate(summary)) for quantity in findings.figures)
    return [Entry(summary, quantity, estimate) for quantity, estimate in found if estimate is not None]


def entries(findings: Findings) -> list[Entry]:
    """Return the entries of all cells."""
    return [entry for summary in findings.summaries for entry in of_cell(findings, summary)]


def timed(findings: Findings) -> list[Entry]:
    """Return the times alone."""
    return [entry for entry in entries(findings) if entry.quantity.name == TIME]


def refuse_empty(found: Sequence[Entry], source: Source, what: str = "number") -> None:
    """Raise ExportError, with the reasons, where a format that cannot be empty would be."""
    if not found:
        words = [f"run {source.findings.run.id} has no cell with a {what}", *notes(source.findings)]
        raise ExportError("\n  ".join(words))


def without_numbers(findings: Findings) -> list[dict[str, str]]:
    """Return the name, the status and the reason of each cell that has no numbers."""
    failed = [s for s in findings.summaries if not s.ok]
    return [{"name": cell_name(s.cell), "status": s.status, "reason": one_line(s.reason)} for s in failed]


def notes(findings: Findings, word: str = "left out", *, times_alone: bool = False) -> tuple[str, ...]:
    """Say which cells failed, and by `word` what becomes of them; a format of times alone leaves out what is scored, too."""
    untimed = sum(s.ok and not s.medians for s in findings.summaries) if times_alone else 0
    scored = [f"left out: {counted(untimed, 'cell')} scored and not timed"] if untimed else []
    return (*(f"{word}: {line}" for line in reasons(findings.summaries, findings.names)), *scored)


def one_machine(run: RunInfo) -> tuple[str, ...]:
    """Say, of a run that was measured on unlike devices, which of them a format that knows a single machine names."""
    first, *others = devices(run).values() or [""]
    return (f"a file knows one machine: all cells are under {first}, also those of {'; '.join(others)}",) if others else ()
