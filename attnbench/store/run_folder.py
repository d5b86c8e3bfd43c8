"""A run folder: run.json and records.jsonl; in that of a selfcheck also plan.json.

Where several processes measure parts of a run, each has its own run.3.json and records.3.jsonl beside run.json; who reads the
folder reads them all. Appending is durable. A torn last line and lines that cannot be read are set aside with the reason, and
never lost. Where records.jsonl is not there, records.jsonl.gz (as `gzip` makes it) is read, or records.parquet (as
`attnbench export` does).
"""

import errno
import gzip
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from attnbench.schema.cell import Cell
from attnbench.schema.errors import AttnbenchError, UsageError
from attnbench.schema.noun import Noun
from attnbench.schema.record import Record, parse
from attnbench.schema.run import RunInfo, joined
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.files import open_to_read, open_to_write, sync, write_durably

RUN, _PLAN = "run.json", "plan.json"
_OURS = re.compile(r"(?:plan\.json|run(?:\.\d+)?\.json|records(?:\.\d+)?\.(?:jsonl(?:\.gz)?|parquet))")
_PART = re.compile(r"run\.(\d+)\.json")
_Stored = TypeVar("_Stored", bound=Noun)


class StoreError(AttnbenchError):
    """A run folder cannot be read or written; the message says which and what to do."""


class NoRunError(StoreError, UsageError):
    """A folder, or what is no folder, is named as a run and is none."""


@dataclass
class RunFolder:
    """Records of one run on disk. Writers hold its lock."""

    path: Path
    part: int | None = None
    """The number of the part that is read and written, where several processes measure one run; None for all of it."""
    set_aside: list[str] = field(default_factory=list)
    """The lines of records.jsonl that were moved to records.aside, in words."""
    _left: tuple[int, int, int] | None = field(default=None, repr=False, compare=False)
    """The `_state` in which this object left the records file; None before `repair` and `append`."""

    @classmethod
    def at(cls, results: Path, info: RunInfo) -> "RunFolder":
        """Return the folder that a run has below `results`, whether it is there or not."""
        return cls(results / safe_name(info.suite.name) / safe_name(info.id))

    @classmethod
    def create(cls, results: Path, info: RunInfo) -> "RunFolder":
        """Make `results/<suite>/<run id>/` with its run.json. Raises StoreError."""
        folder = cls.at(results, info)
        with _told(f"cannot create {folder.path}"):
            folder.path.mkdir(parents=True)
            write_durably(folder.path / RUN, info.model_dump_json(indent=1).encode())
            sync(folder.path.parent)
        return folder

    def parts(self) -> list["RunFolder"]:
        """Return the parts that there are, by rising number; a part has none."""
        # not of pathlib, which raises for a folder that cannot be read
        names = glob("run.*.json", root_dir=self.path) if self.part is None else []  # noqa: PTH207
        found = map(_PART.fullmatch, names)
        return [RunFolder(self.path, number) for number in sorted(int(match[1]) for match in found if match)]

    @property
    def begun(self) -> bool:
        """Say whether there is a run.json, or that of the part."""
        return (self.path / self._named("run", "json")).exists()

    def adopt(self, number: int, other: "RunFolder") -> None:
        """Take in a run as a part: its run.json, and a copy of its records. Raises StoreError."""
        part = RunFolder(self.path, number)
        part.rewrite(other.own())
        with _told(f"cannot copy {other.path} into {self.path}"):
            if (source := other._stored()) is not None:
                target = dict(zip(other._records(), part._records(), strict=True))[source]
                with open_to_read(source) as stored, os.fdopen(open_to_write(target, os.O_WRONLY | os.O_CREAT), "wb") as copy:
                    shutil.copyfileobj(stored, copy)
                sync(target)
            sync(self.path)

    def _named(self, stem: str, ending: str) -> str:
        return f"{stem}.{ending}" if self.part is None else f"{stem}.{self.part}.{ending}"

    @property
    def lock(self) -> Path:
        """The file by which writers keep each other out."""
        return self.path / self._named("run", "lock")

    @property
    def checkpoints(self) -> Path:
        """The folder in which trainings keep their weights; reports need nothing from it."""
        return self.path / "checkpoints"

    def info(self) -> RunInfo:
        """Read run.json, and those of all parts. Raises StoreError."""
        return joined(self.own(), [part.own() for part in self.parts()])

    def own(self) -> RunInfo:
        """Read run.json alone, or that of the part. Raises StoreError."""
        return self.recall(self._named("run", "json"), RunInfo, "a run folder")

    def rewrite(self, info: RunInfo) -> None:
        """Write or replace run.json, or that of the part, as a whole. Raises StoreError, and then an old file stays."""
        self.keep(self._named("run", "json"), info)

    def plan(self) -> Selfcheck:
        """Read the plan of a selfcheck: which process each replicate number stands for. Raises StoreError where none is."""
        return self.recall(_PLAN, Selfcheck, "the folder of a selfcheck")

    def keep_plan(self, plan: Selfcheck) -> None:
        """Write the plan of a selfcheck beside its records. Raises StoreError."""
        self.keep(_PLAN, plan)

    def recall(self, name: str, kind: type[_Stored], what: str) -> _Stored:
        """Read a file of this kind. Raises NoRunError where it is not there, and StoreError."""
        try:
            with open_to_read(self.path / name) as data:
                return kind.model_validate_json(data.read().decode())
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
                raise NoRunError(f"{self.path} is not {what}: {name}: {_words(error)}") from error
            raise StoreError(f"{self.path / name} cannot be read: {_words(error)}") from error

    def keep(self, name: str, stored: Noun | str | bytes) -> None:
        """Write or replace a file as a whole. Raises StoreError, and then an old file stays."""
        content = stored.model_dump_json(indent=1) if isinstance(stored, Noun) else stored
        with _told(f"cannot write {self.path / name}"):
            write_durably(self.path / name, content.encode() if isinstance(content, str) else content)

    def records(self) -> list[Record]:
        """Return all records that can be read, in the order they were written; the disk is not changed. Raises StoreError."""
        return list(self.read())

    def read(self, refused: Callable[[str], object] = str) -> Iterator[Record]:
        """Give the records one by one, for a long run need not fit into memory. Raises StoreError.

        `refused` is told why a line is no record.
        """
        for part in (*self.parts(), self):
            yield from part.own_records(refused)

    def own_records(self, refused: Callable[[str], object] = str) -> Iterator[Record]:
        """Give those that are not of its parts. Raises StoreError."""
        file = self._stored()
        if file is None:
            return
        with _told(f"cannot read {file}"):
            for record in (_try_parse(line) for line in _lines(file) if line.strip()):
                if isinstance(record, Record):
                    yield record
                else:
                    refused(record)

    def size(self) -> int:
        """Return the bytes of all records; only a run that is whole is compressed, and so has more than any other."""
        files = [file for part in (self, *self.parts()) if (file := part._stored()) is not None]
        is_kept = any(file.suffix != ".jsonl" for file in files)
        return sys.maxsize if is_kept else sum(file.stat().st_size for file in files)

    def _records(self) -> tuple[Path, ...]:
        """Return the file of the records, and those that may have them in its place."""
        return tuple(self.path / self._named("records", ending) for ending in ("jsonl", "jsonl.gz", "parquet"))

    def _stored(self) -> Path | None:
        return next((file for file in self._records() if file.exists()), None)

    def repair(self) -> list[Record]:
        """Prepare the records of this part for appending, and return them. Raises StoreError.

        Bad lines and a torn end go to records.aside with the reason, the rest stays. Compressed records are expanded.
        """
        file = self._records()[0]
        with _told(f"cannot read {file}"):
            kept = self._stored()
            lines = [line.removesuffix(b"\n") for line in _lines(kept) if line.strip()] if kept else []
            if kept and kept != file:
                write_durably(file, b"".join(line + b"\n" for line in lines))
                kept.unlink()
        parsed = [(line, _try_parse(line)) for line in lines]
        bad = [(line, reason) for line, reason in parsed if isinstance(reason, str)]
        self.set_aside = [f"{reason}: {line[:80].decode(errors='replace')!r}" for line, reason in bad]
        with _told(f"cannot repair {self.path}"):
            if bad:
                aside = b"".join(b"# %s\n%s\n" % (reason.encode(errors="replace"), line) for line, reason in bad)
                _append_durably(self.path / self._named("records", "aside"), aside)
                good = b"".join(line + b"\n" for line, record in parsed if isinstance(record, Record))
                write_durably(file, good)
            elif parsed:
                # a kill may have come between a whole line and its newline, and the next record needs a line of its own
                with os.fdopen(open_to_write(file, os.O_RDWR), "rb+") as stored:
                    stored.seek(-1, os.SEEK_END)
                    if stored.read(1) != b"\n":
                        stored.write(b"\n")
            self._left = _state(file.lstat()) if file.exists() else None
        return [record for _, record in parsed if isinstance(record, Record)]

    def append(self, record: Record) -> None:
        """Add one record and wait until it is on the disk. Raises StoreError, and then leaves no half line."""
        file = self._records()[0]
        if self._left is not None and not (file.exists() and _state(file.lstat()) == self._left):
            raise StoreError(
                f"{file} was removed, replaced or changed by another program since the last record was added to it"
            )
        # an interruption may come when the line is written and its state not yet known
        left, self._left = self._left, None
        try:
            self._left = _append_durably(file, (record.line() + "\n").encode())
        except (OSError, ValueError) as error:
            self._left = left
            raise StoreError(f"cannot write {file}: {_words(error)}; what was recorded so far is kept") from error


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Raise StoreError, which begins with `what`, where a file cannot be read or written."""
    try:
        yield
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise StoreError(f"{what}: {_words(error)}") from error


def _lines(file: Path) -> Iterator[bytes]:
    """Give the lines of records that are kept in a file. Raises OSError, EOFError, zlib.error, StoreError."""
    if file.suffix == ".parquet":
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise StoreError(f"{file} is read by pyarrow, which is not installed: pip install 'attnbench[parquet]'") from None
        try:
            with open_to_read(file) as stored:
                for batch in parquet.ParquetFile(stored, page_checksum_verification=True).iter_batches(
                    1000, columns=["record"]
                ):
                    yield from (f"{line}\n".encode() for line in batch.column(0).to_pylist())
        except ArrowException as error:
            raise StoreError(f"cannot read {file}: {_words(error)}") from error
        return
    with open_to_read(file) as stored, gzip.open(stored) if file.suffix == ".gz" else nullcontext(stored) as lines:
        yield from lines


def _try_parse(line: bytes) -> Record | str:
    """Return the record, or the reason why the line is none."""
    try:
        return parse(line.decode())
    except ValueError as error:
        return _words(error)


def _words(error: Exception) -> str:
    """Say in one line what went wrong; of a file, name the first field that does not fit."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.partition("\n")[0]


def safe_name(name: str) -> str:
    """Return a file name of at most 80 plain characters; names come from users and are never used as paths."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".")[:80]
    return plain or "_"


def checkpoint_of(folder: Path, cell: Cell, replicate: int) -> Path:
    """Return the checkpoint file of one replicate of a cell, in the folder that `RunFolder.checkpoints` names."""
    return folder / f"{cell.key[:16]}-{replicate}.safetensors"


def is_of_run(name: str) -> bool:
    """Say whether a file of a run folder is one from which everything else is made."""
    return bool(_OURS.fullmatch(name))


def find_runs(root: Path, refused: Callable[[OSError], object]) -> Iterator[Path]:
    """Find the run folders at any depth, sorted by path; `refused` is called for folders that cannot be read.

    A run folder holds a run.json, or records that lack one. Hidden folders are passed over, and links are followed once.
    """
    seen: set[Path] = set()
    for name, inner, files in os.walk(root, onerror=refused, followlinks=True):
        folder = Path(name)
        if (real := folder.resolve()) in seen:
            inner.clear()
            continue
        seen.add(real)
        # os.walk goes into the folders that are left in this list, in its order
        inner[:] = sorted(each for each in inner if not each.startswith("."))
        if any(map(is_of_run, files)):
            yield folder


def _state(found: os.stat_result) -> tuple[int, int, int]:
    """Return what tells a file from another of the same name, and from itself before it was written."""
    return found.st_dev, found.st_ino, found.st_size


def _append_durably(file: Path, data: bytes) -> tuple[int, int, int]:
    """Add to a file, all or nothing, wait until it is on the disk, and return the file's state."""
    descriptor = open_to_write(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    before = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
        if not before:
            sync(file.parent)
        return _state(os.fstat(descriptor))
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)
