"""Reading a history through its index: only runs that are new are read, and a damaged index is made anew."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from attnbench.schema.history import Entry, Point, Summary, Track
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.store.history import History
from attnbench.store.index import Index, Wanted
from attnbench.store.roofs import cache_folder
from attnbench.store.run_folder import StoreError

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOWHERE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM)

Summarize = Callable[[RunInfo, Iterable[Record]], Summary]
Say = Callable[[int, int], None]
"""Of the runs to be read, how many were, and how many there are."""


@dataclass(frozen=True)
class Found:
    """All runs in the order in which they were started, and the tracks that were asked for."""

    entries: list[Entry]
    tracks: list[Track]


def look_up(history: History, summarize: Summarize, wanted: Wanted, say: Say = lambda *_: None) -> Found:
    """What a history holds now; raises HistoryError, StoreError."""
    kept = index_file(history)
    # a second time for an index that was damaged; without one where none can be kept
    for file in (kept, kept, None):
        try:
            return _look(file, history, summarize, wanted, say)
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _BUSY:
                raise StoreError(f"another attnbench is at work on the index {kept}; try again") from error
            if file is not None and code not in _NOWHERE:
                _remove(file)
    raise StoreError(f"no index can be made of {history.address}")


def index_file(history: History) -> Path:
    """Where the index of a history is kept."""
    return cache_folder() / f"history-{hashlib.sha256(history.address.encode()).hexdigest()[:16]}.sqlite"


def _look(file: Path | None, history: History, summarize: Summarize, wanted: Wanted, say: Say) -> Found:
    with Index(_usable(file)) as index:
        _refresh(index, history, summarize, say)
        return Found(index.entries(), index.tracks(wanted))


def _usable(file: Path | None) -> Path | None:
    """None where its folder cannot be made."""
    try:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return file


def _refresh(index: Index, history: History, summarize: Summarize, say: Say) -> None:
    """Forget what is gone or has changed, and read what is new."""
    now, known = history.places(), index.stamps()
    gone = [place for place, stamp in known.items() if place not in now or now[place] != stamp]
    if gone:
        index.forget(gone)
    new = sorted(now.keys() - (known.keys() - set(gone)))
    for number, place in enumerate(new):
        say(number, len(new))
        entry, points = _read(history, place, summarize)
        index.add(entry, points, stamp=None if entry.problem else now[place])
    if new:
        say(len(new), len(new))


def _read(history: History, place: str, summarize: Summarize) -> tuple[Entry, tuple[Point, ...]]:
    """One run; one that cannot be read has the reason, and is tried again the next time."""
    try:
        with history.folder(place) as folder:
            info = folder.info()
            summary = summarize(info, folder.read())
            entry = Entry.of(place, info, summary)
            return entry, () if entry.base else summary.points
    except (StoreError, ValueError, OverflowError) as error:
        return Entry(place=place, problem=str(error)), ()


def _remove(file: Path) -> None:
    for each in (file, file.with_name(f"{file.name}-journal")):
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"the index {each} is damaged and cannot be removed: {error.strerror}") from error
