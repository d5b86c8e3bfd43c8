"""A run folder: run.json, records.jsonl, and only this file knows their names.

Appending is durable; a torn last line and lines that cannot be read are set aside with the reason, never lost.
"""

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from attnbench.schema.record import Record, parse
from attnbench.schema.run import RunInfo
from attnbench.store.files import open_to_read, open_to_write, write_durably

_RUN, _RECORDS, _ASIDE = "run.json", "records.jsonl", "records.aside"


class StoreError(RuntimeError):
    """A run folder that cannot be read or written; the message says which and what to do."""


@dataclass
class RunFolder:
    """Records of one run on disk. Writers hold a FolderLock."""

    path: Path
    set_aside: list[str] = field(default_factory=list)
    """In words, lines of records.jsonl that were moved to records.aside."""
    _left: "_State | None" = field(default=None, repr=False, compare=False)
    """The records file as this object left it; None while it has neither read it for writing on nor written it."""

    @classmethod
    def create(cls, results: Path, info: RunInfo) -> "RunFolder":
        """Make `results/<suite>/<run id>/` with its run.json; raises StoreError."""
        folder = cls(results / safe_name(info.suite.name) / safe_name(info.id))
        try:
            folder.path.mkdir(parents=True)
            write_durably(folder.path / _RUN, info.model_dump_json(indent=1).encode())
            _sync(folder.path.parent)
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot create {folder.path}: {_words(error)}") from error
        return folder

    @property
    def checkpoints(self) -> Path:
        """Where trainings keep their weights; nothing that a report needs is there."""
        return self.path / "checkpoints"

    def info(self) -> RunInfo:
        """What run.json says; raises StoreError."""
        file = self.path / _RUN
        try:
            with open_to_read(file) as data:
                return RunInfo.model_validate_json(data.read().decode())
        except OSError as error:
            raise StoreError(f"{self.path} is not a run folder: {_RUN}: {_words(error)}") from error
        except ValueError as error:
            raise StoreError(f"{file} cannot be read: {_words(error)}") from error

    def rewrite(self, info: RunInfo) -> None:
        """Replace run.json as a whole; raises StoreError, and then the old one stands."""
        try:
            write_durably(self.path / _RUN, info.model_dump_json(indent=1).encode())
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot write {self.path / _RUN}: {_words(error)}") from error

    def records(self) -> list[Record]:
        """All records that can be read, in the order they were written; changes nothing on disk. Raises StoreError."""
        return list(self.read())

    def read(self, part: range | None = None) -> Iterator[Record]:
        """The same, one by one: a long run need not fit into memory; or those in one of its `parts`. Raises StoreError."""
        file = self.path / _RECORDS
        try:
            with open_to_read(file) as lines:
                for line in lines if part is None else _within(lines, part):
                    if line.strip() and isinstance(record := _try_parse(line), Record):
                        yield record
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read {file}: {_words(error)}") from error

    def parts(self, most: int, least_bytes: int) -> list[range]:
        """Cut the records into so many parts of about equal size, at ends of lines; as bytes, in order. Raises StoreError."""
        file = self.path / _RECORDS
        try:
            with open_to_read(file) as lines:
                size = lines.seek(0, os.SEEK_END)
                count = max(1, min(most, size // least_bytes))
                ends = [_line_end(lines, size * number // count) for number in range(1, count)]
        except FileNotFoundError:
            return [range(0)]
        except OSError as error:
            raise StoreError(f"cannot read {file}: {_words(error)}") from error
        return [range(start, end) for start, end in pairwise((0, *ends, size))]

    def repair(self) -> list[Record]:
        """Read for writing on: bad lines and a torn end go to records.aside with the reason, the rest stays.

        Raises StoreError.
        """
        parsed = [(line, _try_parse(line)) for line in self._lines()]
        bad = [(line, reason) for line, reason in parsed if isinstance(reason, str)]
        self.set_aside = [f"{reason}: {line[:80].decode(errors='replace')!r}" for line, reason in bad]
        try:
            if bad:
                aside = b"".join(b"# %s\n%s\n" % (reason.encode(errors="replace"), line) for line, reason in bad)
                _append_durably(self.path / _ASIDE, aside)
                good = b"".join(line + b"\n" for line, record in parsed if isinstance(record, Record))
                write_durably(self.path / _RECORDS, good)
            elif parsed:
                self._end_the_last_line()
        except OSError as error:
            raise StoreError(f"cannot repair {self.path}: {_words(error)}") from error
        self._left = _state(self.path / _RECORDS)
        return [record for _, record in parsed if isinstance(record, Record)]

    def append(self, record: Record) -> None:
        """Add one record and wait until it is on the disk; raises StoreError, and then leaves no half line."""
        file = self.path / _RECORDS
        if self._left is not None and _state(file) != self._left:
            raise StoreError(
                f"{file} was removed, replaced or changed by another program since the last record was added to it"
            )
        try:
            self._left = _append_durably(file, (record.line() + "\n").encode())
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot write {file}: {_words(error)}; what was recorded so far is kept") from error

    def _lines(self) -> list[bytes]:
        try:
            with open_to_read(self.path / _RECORDS) as file:
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot read {self.path / _RECORDS}: {_words(error)}") from error
        return [line for line in data.split(b"\n") if line.strip()]

    def _end_the_last_line(self) -> None:
        """A kill between a whole line and its newline must not glue the next record to it."""
        with os.fdopen(open_to_write(self.path / _RECORDS, os.O_RDWR), "rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _within(lines: BinaryIO, part: range) -> Iterator[bytes]:
    place = lines.seek(part.start)
    while place < part.stop and (line := lines.readline()):
        place += len(line)
        yield line


def _line_end(lines: BinaryIO, place: int) -> int:
    """Where the line ends that a byte lies in."""
    lines.seek(place)
    lines.readline()
    return lines.tell()


def _try_parse(line: bytes) -> Record | str:
    """The record, or why it is none."""
    try:
        return parse(line.decode())
    except ValueError as error:
        return _words(error)


def _words(error: OSError | ValueError) -> str:
    """One line of what went wrong."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.partition("\n")[0]


def safe_name(name: str) -> str:
    """A file name of at most 80 plain characters; names come from users and are data, never paths."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".")[:80]
    return plain or "_"


@dataclass(frozen=True)
class _State:
    """What tells a file from another of the same name, and from itself before it was written."""

    device: int
    number: int
    size: int

    @classmethod
    def of(cls, found: os.stat_result) -> "_State":
        return cls(found.st_dev, found.st_ino, found.st_size)


def _state(file: Path) -> _State | None:
    """None where it is not there."""
    try:
        return _State.of(file.lstat())
    except OSError:
        return None


def _append_durably(file: Path, data: bytes) -> _State:
    """Add to a file, all or nothing, and wait until it is on the disk; the file as it is then."""
    descriptor = open_to_write(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    before = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
        if not before:
            _sync(file.parent)
        return _State.of(os.fstat(descriptor))
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
