"""What goes into a format, and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnbench.report.findings import Findings
from attnbench.schema.record import Record


class ExportError(ValueError):
    """A format that cannot hold these runs; the message says why, and what would be right."""


@dataclass(frozen=True)
class Source:
    """One run; its records too, for formats that hold raw samples."""

    findings: Findings
    records: Sequence[Record] = field(default=(), repr=False)


@dataclass(frozen=True)
class Export:
    """Contents by file name, relative to the folder where there are several; and what the format does not say, in words."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A folder that an export goes to."""

    known: Mapping[str, bytes]
    """What is there already, of the files that are to be written."""
    repository: str | None
    """The way from there to the git repository; None where none was found."""
