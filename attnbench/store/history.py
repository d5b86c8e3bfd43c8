"""A history: a folder of run folders, `<suite>/<run id>/`, here or at a URL. What `attnbench run` leaves is one already."""

import fcntl
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from attnbench.schema.run import RunInfo
from attnbench.store.files import open_to_read
from attnbench.store.run_folder import RunFolder, safe_name

RUN, RECORDS, LOCK = "run.json", "records.jsonl", "run.lock"


class HistoryError(ValueError):
    """What cannot be a history, or cannot be added to one; the message says why and what would be right."""


class History(ABC):
    """Runs by their place, the folder within the history: `quick/20260102-030405-abcdef`."""

    address: str
    """The same for the same history, however it was named."""

    @abstractmethod
    def places(self) -> dict[str, str]:
        """All runs, each with a stamp that is another when its files are; raises HistoryError, StoreError.

        Runs that never change once they are there have an empty stamp.
        """

    @abstractmethod
    def folder(self, place: str) -> AbstractContextManager[RunFolder]:
        """One run, to be read; raises StoreError."""

    @abstractmethod
    def holds(self, place: str) -> bool:
        """Whether the place is taken; raises StoreError."""

    @abstractmethod
    def put(self, run: Path, place: str) -> None:
        """Copy a run folder to a free place, all or nothing; raises HistoryError, StoreError."""


def place_of(info: RunInfo) -> str:
    """Where a run belongs."""
    return f"{safe_name(info.suite.name)}/{safe_name(info.id)}"


def files_of(run: Path) -> Iterator[Path]:
    """What belongs to a run, relative to its folder: all but the lock and what was left half written."""
    for file in sorted(run.rglob("*")):
        inner = file.relative_to(run)
        hidden = any(part.startswith(".") for part in inner.parts)
        if file.is_file() and not hidden and inner != Path(LOCK):
            yield inner


def open_history(address: str) -> History:
    """By a path or a URL; raises HistoryError where nothing is known of such a URL."""
    # each of the two needs what the other does not, and a folder needs no library at all
    if "://" not in address:
        from attnbench.store.local_history import LocalHistory

        return LocalHistory(Path(address))
    from attnbench.store.remote_history import at

    return at(address)


def refuse_links(run: Path) -> None:
    """A history keeps files; a link in a run of somebody else's would add any file of this machine. Raises HistoryError."""
    for inner in files_of(run):
        if (run / inner).is_symlink():
            raise HistoryError(f"{run / inner} is a link; a history keeps files, so put there what it leads to, or remove it")


def refuse_while_written(run: Path) -> None:
    """A run that goes on holds the lock of its folder; raises HistoryError."""
    try:
        with open_to_read(run / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HistoryError(f"{run} is still being written; add it when `attnbench run` has ended") from None
    except OSError:
        # no lock, or a file system without locks: nobody who could be asked
        return
