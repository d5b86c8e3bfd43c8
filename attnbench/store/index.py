"""The index of a history: the results of each run, in SQLite. All of it comes from the runs, so it can be made anew.

A history is read through its index: only runs that are new are read, and a damaged index is made anew.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Point, Summary, Track
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.store.cache import cache_folder
from attnbench.store.history import History
from attnbench.store.run_folder import StoreError

VERSION = 4
"""The version of the layout and of what is kept of a run; where a file has another version, all runs are read again."""
_LAYOUT = """
create table runs (id integer primary key, place blob unique not null, stamp text, entry text not null);
create table series (
    id integer primary key, suite text not null, machine text not null, key text not null, cell text not null,
    unique (suite, machine, key)
);
create table counters (id integer primary key, name text unique not null);
create table failures (id integer primary key, status text not null, reason text not null, unique (status, reason));
create table points (
    series integer not null, run integer not null, spread real, counter integer, failure integer, primary key (series, run)
) without rowid;
create table quantities (id integer primary key, name text unique not null);
create table figures (
    quantity integer not null, series integer not null, run integer not null, value real not null,
    primary key (quantity, series, run)
) without rowid;
"""
_WAIT = 30.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOWHERE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM)

Wanted = Callable[[str, Cell], bool]
"""Says whether a cell of a suite, given with the suite's name, is asked for."""
Summarize = Callable[[RunInfo, Iterable[Record]], Summary]
Say = Callable[[int, int], None]
"""Is called with the number of runs that were read, and the number of all that have to be."""


class Index(AbstractContextManager["Index"]):
    """An open index; with `file` None it is kept in memory only. Every method raises sqlite3.DatabaseError."""

    def __init__(self, file: Path | None) -> None:
        # isolation level None: each statement is a transaction of its own, except where one is begun
        self._base = sqlite3.connect(file or ":memory:", timeout=_WAIT, isolation_level=None)
        self._ids: dict[tuple[str, ...], int] = {}
        try:
            # the index can be made again, so no write waits for the disk
            self._base.execute("pragma synchronous = off")
            with self._whole():
                if self._base.execute("pragma user_version").fetchone()[0] != VERSION:
                    for statement in _LAYOUT.split(";"):
                        self._base.execute(statement)
                    self._base.execute(f"pragma user_version = {VERSION}")
        except BaseException:
            self._base.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._base.close()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make what happens inside one transaction, which is committed, or of an error taken back."""
        with self._base:
            self._base.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._ids.clear()
                raise

    def stamps(self) -> dict[str, str | None]:
        """Return by place the stamp that each run had when it was read; None where it could not be read."""
        rows = self._base.execute("select cast(place as blob), stamp from runs")
        return {place.decode(errors="surrogateescape"): stamp for place, stamp in rows}

    def forget(self, places: Iterable[str]) -> None:
        """Remove these runs from the index."""
        gone = set(map(_as_bytes, places))
        with self._whole():
            ids = json.dumps([number for number, place in self._base.execute("select id, place from runs") if place in gone])
            for column in ("points where run", "figures where run", "runs where id"):
                self._base.execute(f"delete from {column} in (select value from json_each(?))", (ids,))  # noqa: S608 - of constants

    def add(self, entry: Entry, points: Iterable[Point] = (), stamp: str | None = None) -> None:
        """Add one run with all its points."""
        with self._whole():
            text = json.dumps(asdict(entry))
            # ignored where another process was quicker
            insert = "insert or ignore into runs (place, stamp, entry) values (?, ?, ?)"
            done = self._base.execute(insert, (_as_bytes(entry.place), stamp, text))
            if not done.rowcount or done.lastrowid is None:
                return
            rows: list[tuple[int | float | None, ...]] = []
            figures: list[tuple[int, int, int, float]] = []
            for point in points:
                name = (entry.suite, entry.machine, point.key)
                if name not in self._ids:
                    cell = point.cell.model_dump_json()
                    self._ids[name] = self._id("series", suite=name[0], machine=name[1], key=name[2], cell=cell)
                counter = self._id("counters", name=point.counter) if point.counter else None
                failure = None if point.status == "ok" else self._id("failures", status=point.status, reason=point.reason)
                series = self._ids[name]
                rows.append((series, done.lastrowid, point.spread, counter, failure))
                numbers = point.figures.items()
                figures += [(self._id("quantities", name=each), series, done.lastrowid, value) for each, value in numbers]
            self._base.executemany("insert or replace into points values (?, ?, ?, ?, ?)", rows)
            self._base.executemany("insert or replace into figures values (?, ?, ?, ?)", figures)

    def _id(self, table: str, **fields: str) -> int:
        """Return the id of the row with these fields, which is made where there is none."""
        names, values = ", ".join(fields), tuple(fields.values())
        known = self._ids.get((table, *values))
        if known is None:
            same = " and ".join(f"{name} = ?" for name in fields)
            marks = ", ".join("?" for _ in fields)
            self._base.execute(f"insert or ignore into {table} ({names}) values ({marks})", values)  # noqa: S608 - constants
            (known,) = self._base.execute(f"select id from {table} where {same}", values).fetchone()  # noqa: S608
            self._ids[table, *values] = known
        return known

    def entries(self) -> list[Entry]:
        """Return all runs in the order in which they were started; runs that cannot be read come last."""
        return [entry for _, entry in self._runs()]

    def _runs(self) -> list[tuple[int, Entry]]:
        try:
            found = [(number, Entry(**json.loads(text))) for number, text in self._base.execute("select id, entry from runs")]
        except (ValueError, TypeError) as error:
            raise sqlite3.DatabaseError(f"a run cannot be read: {error}") from error
        return sorted(found, key=lambda each: (bool(each[1].problem), each[1].started, each[1].run, each[1].place))

    def quantities(self) -> list[str]:
        """Return the names of all figures that any run has."""
        return [name for (name,) in self._base.execute("select name from quantities order by name")]

    def tracks(self, wanted: Wanted, quantity: str) -> list[Track]:
        """Return the tracks of these cells with the numbers of one quantity; their runs are positions in `entries`."""
        positions = {number: position for position, (number, _) in enumerate(self._runs())}
        failures = self._base.execute("select id, status, reason from failures")
        reasons = {number: (status, reason) for number, status, reason in failures}
        select = """select p.run, f.value, p.spread, p.counter, p.failure from points p left join figures f
            on f.quantity = (select id from quantities where name = ?) and f.series = p.series and f.run = p.run
            where p.series = ?"""
        tracks = []
        for number, suite, machine, text in self._base.execute("select id, suite, machine, cell from series order by id"):
            try:
                cell = Cell.model_validate_json(text)
            except ValueError as error:
                raise sqlite3.DatabaseError(f"a cell cannot be read: {error}") from error
            if not wanted(suite, cell):
                continue
            rows = self._base.execute(select, (quantity, number)).fetchall()
            try:
                rows.sort(key=lambda row: positions[row[0]])
            except KeyError as error:
                raise sqlite3.DatabaseError("points refer to runs that are not there") from error
            # what is null becomes NaN
            _, values, spread, counters, failed = np.array(rows, dtype=np.float64).reshape(-1, 5).T
            track = Track(
                suite=suite,
                machine=machine,
                cell=cell,
                runs=np.array([positions[run] for run, *_ in rows], dtype=np.int64),
                values=values,
                spread=spread,
                counters=np.nan_to_num(counters, nan=-1).astype(np.int64),
                failures=np.nan_to_num(failed, nan=-1).astype(np.int64),
                reasons=reasons,
            )
            if not reasons.keys() >= set(track.failures.tolist()) - {-1}:
                raise sqlite3.DatabaseError("points refer to failures that are not there")
            tracks.append(track)
        return [track for track in tracks if len(track)]


@dataclass(frozen=True)
class Found:
    """All runs in the order in which they were started, and the tracks that were asked for."""

    entries: list[Entry]
    tracks: list[Track]
    quantities: list[str]
    """The names of all figures that any of the runs has."""


def look_up(history: History, summarize: Summarize, wanted: Wanted, quantity: str, say: Say = lambda *_: None) -> Found:
    """Return what a history holds now. Raises HistoryError, StoreError."""
    kept: Path | None = None
    with suppress(OSError):
        kept = index_file(history)
        kept.parent.mkdir(parents=True, exist_ok=True)
    # the second try is for an index that was damaged, the last one for a cache that cannot be written
    for file in (kept, kept, None):
        try:
            with Index(file) as index:
                _refresh(index, history, summarize, say)
                return Found(index.entries(), index.tracks(wanted, quantity), index.quantities())
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _BUSY:
                raise StoreError(f"another attnbench is at work on the index {kept}; try again") from error
            if file is None or code in _NOWHERE:
                continue
            for damaged in (file, file.with_name(f"{file.name}-journal")):
                try:
                    damaged.unlink(missing_ok=True)
                except OSError as refused:
                    raise StoreError(f"the index {damaged} is damaged and cannot be removed: {refused.strerror}") from refused
    raise StoreError(f"no index can be made of {history.address}")


def index_file(history: History) -> Path:
    """Return the file in which the index of a history is kept."""
    return cache_folder() / f"history-{hashlib.sha256(os.fsencode(history.address)).hexdigest()[:16]}.sqlite"


def _as_bytes(place: str) -> bytes:
    """Write a place as its folder is called, whose name may be no text."""
    return place.encode(errors="surrogateescape")


def _refresh(index: Index, history: History, summarize: Summarize, say: Say) -> None:
    """Forget runs that are gone or have changed, and read those that are new."""
    now, known = history.places(), index.stamps()
    gone = [place for place, stamp in known.items() if place not in now or now[place] != stamp]
    if gone:
        index.forget(gone)
    new = sorted(now.keys() - (known.keys() - set(gone)))
    for number, place in enumerate(new):
        say(number, len(new))
        try:
            with history.folder(place) as folder:
                info = folder.info()
                summary = summarize(info, folder.read())
                entry = Entry.of(place, info, summary)
                index.add(entry, () if entry.base else summary.points, stamp=now[place])
        except (StoreError, ValueError, OverflowError) as error:
            # without a stamp, so that it is tried again the next time
            index.add(Entry(place=place, problem=str(error)))
    if new:
        say(len(new), len(new))
