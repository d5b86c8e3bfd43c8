"""A history in a folder of this machine."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnbench.store.history import RECORDS, RUN, History, HistoryError, files_of, refuse_links, refuse_while_written
from attnbench.store.run_folder import RunFolder, StoreError


class LocalHistory(History):
    """Runs come by a rename, so that one is there as a whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root.resolve())

    def places(self) -> dict[str, str]:
        """By name; a run that was gone on with since has another stamp."""
        if not self.root.is_dir():
            raise HistoryError(f"{self.root} is no folder; a history is a folder of runs, as results/ is")
        try:
            runs = [(suite, run) for suite in _folders(self.root) for run in _folders(suite)]
        except OSError as error:
            raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
        stamps = ((f"{suite.name}/{run.name}", _stamp(run)) for suite, run in runs)
        return {place: stamp for place, stamp in sorted(stamps) if stamp}

    @contextmanager
    def folder(self, place: str) -> Iterator[RunFolder]:
        """The folder itself."""
        yield RunFolder(self.root / place)

    def holds(self, place: str) -> bool:
        """Whether anything is there."""
        return (self.root / place).exists()

    def put(self, run: Path, place: str) -> None:
        """By a copy beside the place, which is then renamed."""
        refuse_while_written(run)
        refuse_links(run)
        target = self.root / place
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        try:
            _copy(run, partial)
            # a folder with anything in it is never replaced by a rename
            partial.rename(target)
            _sync(target.parent)
        except OSError as error:
            raise StoreError(f"cannot add {run} to {self.root}: {error.strerror}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _folders(parent: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(parent) as entries:
        return [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]


def _stamp(run: os.DirEntry[str]) -> str:
    """Sizes and times of the two files that count; empty for a folder that is no run."""
    parts = []
    for name in (RUN, RECORDS):
        try:
            found = os.stat(f"{run.path}/{name}")  # noqa: PTH116 - twice for each of ten thousand runs
            parts.append(f"{found.st_size}-{found.st_mtime_ns}")
        except OSError:
            parts.append("")
    return "/".join(parts) if any(parts) else ""


def _copy(run: Path, target: Path) -> None:
    """Every file, and wait until it is on the disk."""
    target.mkdir(parents=True)
    for inner in files_of(run):
        file = target / inner
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / inner, file)
        _sync(file)
    _sync(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
