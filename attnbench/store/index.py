"""The index of a history: what each run came to, in SQLite. It holds nothing that the runs do not, and can be made anew."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Floats, Integers, Point, Track

VERSION = 1
"""Of the layout, and of what is kept of a run; another one, and all runs are read again."""
_LAYOUT = """
create table runs (id integer primary key, place text unique not null, stamp text, entry text not null);
create table series (
    id integer primary key, suite text not null, machine text not null, key text not null, cell text not null,
    unique (suite, machine, key)
);
create table counters (id integer primary key, name text unique not null);
create table failures (id integer primary key, status text not null, reason text not null, unique (status, reason));
create table points (
    series integer not null, run integer not null, seconds real, spread real, replicates integer not null, bytes real,
    counter integer, failure integer, primary key (series, run)
) without rowid;
"""
_WAIT = 30.0

Wanted = Callable[[str, Cell], bool]
"""Of a suite's name and a cell of it."""


@dataclass(frozen=True)
class _Series:
    number: int
    suite: str
    machine: str
    cell: Cell


class Index:
    """An open index; `file` None is one that is kept nowhere. Every method raises sqlite3.DatabaseError."""

    def __init__(self, file: Path | None) -> None:
        # None: a statement is its own transaction, but where one is begun
        self._base = sqlite3.connect(file or ":memory:", timeout=_WAIT, isolation_level=None)
        self._ids: dict[tuple[str, ...], int] = {}
        try:
            self._begin()
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._base.close()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A transaction: all of it or nothing."""
        self._base.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._ids.clear()
            if self._base.in_transaction:
                self._base.execute("rollback")
            raise
        self._base.execute("commit")

    def _begin(self) -> None:
        # it can be made again, so no write waits for the disk
        self._base.execute("pragma synchronous = off")
        with self._whole():
            if self._base.execute("pragma user_version").fetchone()[0] != VERSION:
                self._lay_out()

    def _lay_out(self) -> None:
        for statement in _LAYOUT.split(";"):
            self._base.execute(statement)
        self._base.execute(f"pragma user_version = {VERSION}")

    def stamps(self) -> dict[str, str | None]:
        """By place, the stamp of each run as it was when it was read; None where it could not be."""
        return dict(self._base.execute("select place, stamp from runs"))

    def forget(self, places: Iterable[str]) -> None:
        """Leave these runs out from now on."""
        chosen = (json.dumps(list(places)),)
        with self._whole():
            ids = "select id from runs where place in (select value from json_each(?))"
            self._base.execute(f"delete from points where run in ({ids})", chosen)  # noqa: S608 - of constants
            self._base.execute("delete from runs where place in (select value from json_each(?))", chosen)

    def add(self, entry: Entry, points: Iterable[Point] = (), stamp: str | None = None) -> None:
        """One run with all its points, or nothing of it."""
        with self._whole():
            text = json.dumps(asdict(entry))
            # another process may have been quicker
            insert = "insert or ignore into runs (place, stamp, entry) values (?, ?, ?)"
            done = self._base.execute(insert, (entry.place, stamp, text))
            if done.rowcount and done.lastrowid is not None:
                rows = [self._row(entry, point, done.lastrowid) for point in points]
                self._base.executemany("insert or replace into points values (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _row(self, entry: Entry, point: Point, run: int) -> tuple[int | float | None, ...]:
        series = self._series(entry, point)
        counter = self._id("counters", name=point.counter) if point.counter else None
        failure = None if point.status == "ok" else self._id("failures", status=point.status, reason=point.reason)
        return series, run, point.seconds, point.spread, point.replicates, point.bytes, counter, failure

    def _series(self, entry: Entry, point: Point) -> int:
        known = self._ids.get((entry.suite, entry.machine, point.key))
        if known is None:
            cell = point.cell.model_dump_json()
            known = self._id("series", suite=entry.suite, machine=entry.machine, key=point.key, cell=cell)
            self._ids[entry.suite, entry.machine, point.key] = known
        return known

    def _id(self, table: str, **fields: str) -> int:
        """Of the row with these fields, which is made where there is none."""
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
        """All runs in the order in which they were started; those that cannot be read come last."""
        return [entry for _, entry in self._runs()]

    def _runs(self) -> list[tuple[int, Entry]]:
        found = [(number, _entry(text)) for number, text in self._base.execute("select id, entry from runs")]
        return sorted(found, key=lambda each: (bool(each[1].problem), each[1].started, each[1].run, each[1].place))

    def tracks(self, wanted: Wanted) -> list[Track]:
        """The tracks of these cells; their runs are positions in `entries`."""
        runs = np.array([number for number, _ in self._runs()], dtype=np.int64)
        found = self._base.execute("select id, suite, machine, cell from series order by id").fetchall()
        series = [_Series(number, suite, machine, _cell(text)) for number, suite, machine, text in found]
        tracks = (self._track(each, runs) for each in series if wanted(each.suite, each.cell))
        return [track for track in tracks if len(track)]

    def _track(self, series: _Series, runs: Integers) -> Track:
        select = "select run, seconds, spread, bytes, counter, failure from points where series = ?"
        rows = self._base.execute(select, (series.number,)).fetchall()
        # what is null becomes NaN
        values = np.array(rows, dtype=np.float64).reshape(-1, 6)
        positions = _positions(values[:, 0], runs)
        order = positions.argsort()
        values = values[order]
        counters, names = self._told("select name from counters where id = ?", values[:, 4])
        failures, reasons = self._told("select status, reason from failures where id = ?", values[:, 5])
        return Track(
            suite=series.suite,
            machine=series.machine,
            cell=series.cell,
            runs=positions[order],
            seconds=values[:, 1],
            spread=values[:, 2],
            bytes=values[:, 3],
            counters=counters,
            failures=failures,
            names=tuple(name for (name,) in names),
            reasons=tuple((status, reason) for status, reason in reasons),
        )

    def _told(self, select: str, column: Floats) -> tuple[Integers, list[tuple[str, ...]]]:
        """For each entry of a column of numbers its position among the rows they stand for, or -1; and these rows."""
        some = ~np.isnan(column)
        known, places = np.unique(column[some], return_inverse=True)
        positions = np.full(len(column), -1, dtype=np.int64)
        positions[some] = places
        rows = [self._base.execute(select, (int(each),)).fetchone() for each in known]
        if None in rows:
            raise sqlite3.DatabaseError("points refer to what is not there")
        return positions, rows


def _positions(ids: Floats, runs: Integers) -> Integers:
    """Of runs by number, where they stand in a list of numbers."""
    order = runs.argsort()
    places = np.minimum(np.searchsorted(runs, ids, sorter=order), len(runs) - 1)
    found = order[places] if len(runs) else np.zeros(0, dtype=np.int64)
    if len(found) != len(ids) or not np.array_equal(runs[found], ids):
        raise sqlite3.DatabaseError("points refer to runs that are not there")
    return found


def _cell(text: str) -> Cell:
    try:
        return Cell.model_validate_json(text)
    except ValueError as error:
        raise sqlite3.DatabaseError(f"a cell cannot be read: {error}") from error


def _entry(text: str) -> Entry:
    try:
        return Entry(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a run cannot be read: {error}") from error
