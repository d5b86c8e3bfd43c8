"""A history: a folder of run folders, `<suite>/<run id>/`. What `attnbench run` leaves under results/ is one already.

It is a folder of this machine, or at a URL on any file system that fsspec knows.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnbench.schema.errors import UsageError
from attnbench.schema.run import RunInfo
from attnbench.store.files import sync
from attnbench.store.lock import refuse_unended
from attnbench.store.run_folder import RUN, RunFolder, StoreError, is_of_run, safe_name
from attnbench.store.scratch import scratch

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "sftp": "paramiko"}


class HistoryError(UsageError):
    """An address that cannot be a history, or a run that cannot be added to one; the message says why."""


def open_history(address: str | Path) -> "History":
    """Open the history at a path or a URL.

    Raises HistoryError where the protocol of a URL is unknown or needs another package, and StoreError where it fails.
    """
    address = str(address)
    protocol, is_url, _ = address.partition("://")
    if not is_url:
        return LocalHistory(Path(address))
    if "::" in protocol:
        raise HistoryError(f"{address}: one address within another is no place for a history; name the last one alone")
    # imported for a URL only: a folder needs no library
    import fsspec  # type: ignore[import-untyped]
    from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

    try:
        files, root = fsspec.url_to_fs(address)
    except ImportError as error:
        pip = f"pip install {_PACKAGES[protocol]}" if protocol in _PACKAGES else str(error)
        raise HistoryError(f"{protocol}:// needs another package: {pip}") from None
    except ValueError as error:
        raise HistoryError(f"{protocol}:// is no place for a history: {error}") from None
    except Exception as error:
        raise StoreError(f"{protocol}:// cannot be opened: {type(error).__name__}: {error}") from error
    return LocalHistory(Path(root)) if isinstance(files, LocalFileSystem) else RemoteHistory(address, files, root)


def place_of(info: RunInfo) -> str:
    """Return the place of a run in a history."""
    return f"{safe_name(info.suite.name)}/{safe_name(info.id)}"


def files_of(run: Path) -> Iterator[Path]:
    """List the files and links of a run, relative to its folder: all but the lock and what is hidden or half written."""
    for file in sorted(run.rglob("*")):
        inner = file.relative_to(run)
        hidden = any(part.startswith(".") for part in inner.parts)
        is_lock = len(inner.parts) == 1 and inner.suffix == ".lock"
        if (file.is_file() or file.is_symlink()) and not hidden and not is_lock:
            yield inner


def _refuse_what_cannot_be_added(run: Path) -> None:
    """Raise LockedError for a run that is still being written, HistoryError for one that holds links."""
    refuse_unended(run)
    for inner in files_of(run):
        # a link in the run of a stranger could add any file of this machine
        if (run / inner).is_symlink():
            raise HistoryError(f"{run / inner} is a link; replace it by what it leads to, or remove it")


class LocalHistory:
    """A history in a folder of this machine. Runs are added by a rename, so that each is there as a whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root.resolve())

    def places(self) -> dict[str, str]:
        """Return the places of all runs, each with a stamp that changes as it is resumed. Raises HistoryError, StoreError."""
        if not self.root.is_dir():
            raise HistoryError(f"{self.root} is not a folder; a history is a folder of runs, as results/ is")
        try:
            runs = [(suite, run) for suite in _folders(self.root) for run in _folders(suite)]
        except OSError as error:
            raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
        stamps = ((f"{suite.name}/{run.name}", _stamp(run)) for suite, run in runs)
        return {place: stamp for place, stamp in sorted(stamps) if stamp}

    @contextmanager
    def folder(self, place: str) -> Iterator[RunFolder]:
        """Open the run folder itself for reading."""
        yield RunFolder(self.root / place)

    def holds(self, place: str) -> bool:
        """Say whether anything is there."""
        return (self.root / place).exists()

    def put(self, run: Path, place: str) -> None:
        """Copy a run to a folder beside a free place, which is then renamed. Raises HistoryError, LockedError, StoreError."""
        _refuse_what_cannot_be_added(run)
        target = self.root / place
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.mkdir(parents=True)
            for inner in files_of(run):
                file = partial / inner
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(run / inner, file)
                sync(file)
            sync(partial)
            # a rename never replaces a folder that holds anything
            partial.rename(target)
            sync(target.parent)
        except OSError as error:
            raise StoreError(f"cannot add {run} to {self.root}: {error.strerror}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _folders(parent: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(parent) as entries:
        return [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]


def _stamp(run: os.DirEntry[str]) -> str:
    """Return the names, sizes and times of run.json and the records; empty for a folder with neither of them.

    Where they cannot be looked at, the reason takes their place: whoever reads the run is told.
    """
    try:
        with os.scandir(run.path) as files:
            found = sorted((each.name, each.stat()) for each in files if is_of_run(each.name))
    except OSError as error:
        return str(error)
    return "/".join(f"{name}-{state.st_size}-{state.st_mtime_ns}" for name, state in found)


class RemoteHistory:
    """Folders cannot be renamed as a whole there: run.json is written last, and a folder without it is not a run yet.

    A run never changes once it is there, so no run is read twice.
    """

    def __init__(self, url: str, files: Any, root: str) -> None:  # noqa: ANN401 - fsspec has no types
        self._files, self._root = files, root.rstrip("/")
        # the URL and not the path that fsspec makes of it, which may lack the host
        self.address = url.rstrip("/")

    def places(self) -> dict[str, str]:
        """Return the places of all runs, with empty stamps. Raises HistoryError, StoreError."""
        with self._told("cannot be read"):
            # runs that others have added since must be seen
            self._files.invalidate_cache()
            if not self._files.isdir(self._root):
                raise HistoryError(f"nothing is at {self._said}; attnbench history add makes it")
            suites = self._folders(self._root)
            runs = [f"{suite}/{run}" for suite in suites for run in self._folders(f"{self._root}/{suite}")]
            return dict.fromkeys(sorted(runs), "")

    @contextmanager
    def folder(self, place: str) -> Iterator[RunFolder]:
        """Open a copy of run.json and of the records, which is removed afterwards. Raises StoreError."""
        with scratch() as copy:
            with self._told(f"has no {place} that could be read"):
                (copy / RUN).write_bytes(self._files.cat_file(f"{self._root}/{place}/{RUN}"))
                for each in self._files.ls(f"{self._root}/{place}", detail=True):
                    name = str(each["name"]).rpartition("/")[2]
                    if each["type"] == "file" and is_of_run(name) and name != RUN:
                        (copy / name).write_bytes(self._files.cat_file(f"{self._root}/{place}/{name}"))
            yield RunFolder(copy)

    def holds(self, place: str) -> bool:
        """Say whether a whole run is there; an upload that was cut off does not count. Raises StoreError."""
        with self._told("cannot be read"):
            return bool(self._files.exists(f"{self._root}/{place}/{RUN}"))

    def put(self, run: Path, place: str) -> None:
        """Upload the records of a run first, and run.json last. Raises HistoryError, LockedError, StoreError."""
        _refuse_what_cannot_be_added(run)
        with self._told(f"cannot take {run}"):
            for file in sorted(files_of(run), key=lambda file: file == Path(RUN)):
                path = f"{self._root}/{place}/{file.as_posix()}"
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._files.pipe_file(path, (run / file).read_bytes())

    def _folders(self, path: str) -> list[str]:
        found = self._files.ls(path, detail=True)
        names = (str(each["name"]).rstrip("/").rpartition("/")[2] for each in found if each["type"] == "directory")
        return [name for name in names if not name.startswith(".")]

    @property
    def _said(self) -> str:
        """The address without a name and password that may be in it."""
        return re.sub(r"://[^/]*@", "://", self.address)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Turn whatever a file system raises into a StoreError of one sentence with the address."""
        try:
            yield
        except (HistoryError, StoreError):
            raise
        except Exception as error:
            words = str(error).partition("\n")[0]
            raise StoreError(f"{self._said} {what}: {type(error).__name__}{f': {words}' if words else ''}") from error


History = LocalHistory | RemoteHistory
"""Runs by their place, the folder within the history: `quick/20260102-030405-abcdef`. Its `address` is the same however the
user wrote it; runs that never change once they are there have an empty stamp."""
