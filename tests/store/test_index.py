"""The index of a history: only what is new is read, and a damaged one is made anew."""

import math
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from attnbench.schema.cell import Cell
from attnbench.schema.history import Point, Summary, Track
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.store.history import History, open_history
from attnbench.store.index import VERSION, Found, index_file, look_up
from attnbench.store.run_folder import RunFolder, StoreError
from tests.store.conftest import Numbered

pytestmark = pytest.mark.usefixtures("cache")
CELLS = [Cell(method=method, problem=Problem(N=N)) for method in ("a", "b") for N in (8, 16)]
Add = Callable[..., RunFolder]


class Reader:
    """Boils runs down, and counts them."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, info: RunInfo, records: Iterable[Record]) -> Summary:
        self.read.append(info.id)
        day = int(info.id.removeprefix("run")) + len(list(records))
        points = [Point(cell, cell.key, "ok", "", {"time": day, "memory": 2.0**20}, 0.01, "rss (VmHWM)") for cell in CELLS[:3]]
        return Summary((*points, Point(CELLS[3], CELLS[3].key, "oom_host", f"too large by {day}")), unfinished=2)


@pytest.fixture
def add(tmp_path: Path, run_info: RunInfo) -> Add:
    """Make a run of a day."""

    def _add(day: int, **more: object) -> RunFolder:
        started = f"2026-01-{day:02}T12:00:00+02:00"
        changes: dict[str, object] = {"id": f"run{day}", "started": started, "environment": {"processor": "P", "torch": "2"}}
        return RunFolder.create(tmp_path / "h", run_info.model_copy(update=changes | more))

    return _add


@pytest.fixture
def history(tmp_path: Path, add: Add) -> History:
    """Three runs, which were not added in the order in which they were started."""
    for day in (3, 1, 2):
        add(day)
    return open_history(str(tmp_path / "h"))


@pytest.fixture
def reader() -> Reader:
    """One that has read nothing."""
    return Reader()


def everything(history: History, reader: Reader | None = None, quantity: str = "time") -> Found:
    return look_up(history, reader or Reader(), lambda *_: True, quantity)


def test_runs_are_in_the_order_of_their_start_and_tracks_hold_what_each_came_to(history: History, reader: Reader) -> None:
    found = everything(history)
    first, *_ = found.entries
    assert [entry.run for entry in found.entries] == ["run1", "run2", "run3"]
    assert (first.suite, first.started, first.machine) == ("s", "2026-01-01T10:00:00+00:00", "P")
    assert (first.ok, first.failed, first.unfinished, first.problem) == (3, 1, 2, "")
    track, *_, failed = found.tracks
    assert [track.cell for track in found.tracks] == CELLS
    assert (track.runs.tolist(), track.values.tolist(), track.spread.tolist()) == ([0, 1, 2], [1, 2, 3], [0.01] * 3)
    assert [track.names[i] for i in track.counters] == ["rss (VmHWM)"] * 3
    assert track.failures.tolist() == [-1] * 3
    # a failure is kept with its reason and has no number
    assert all(map(math.isnan, failed.values))
    assert [failed.reasons[i] for i in failed.failures] == [("oom_host", f"too large by {day}") for day in (1, 2, 3)]
    assert failed.counters.tolist() == [-1] * 3
    found = look_up(history, reader, lambda suite, cell: suite == "s" and cell.method == "b", "memory")
    assert [track.cell for track in found.tracks] == CELLS[2:]
    assert found.tracks[0].values.tolist() == [2**20] * 3
    assert np.isnan(everything(history, quantity="loss").tracks[0].values).all()


def test_only_what_changed_is_read_anew(history: History, reader: Reader, add: Add, tmp_path: Path, numbered: Numbered) -> None:
    said: list[tuple[int, int]] = []
    everything(history, reader)
    everything(history, reader)
    add(4)
    found = look_up(history, reader, lambda *_: True, "time", lambda *counts: said.append(counts))
    assert reader.read == ["run1", "run2", "run3", "run4"]
    assert said == [(0, 1), (1, 1)]
    assert found.tracks[0].values.tolist() == [1, 2, 3, 4]
    RunFolder(tmp_path / "h/s/run2").append(numbered(7))
    assert everything(history, reader).tracks[0].values.tolist() == [1, 3, 3, 4]
    assert reader.read[4:] == ["run2"]
    (tmp_path / "h/s/run2").rename(tmp_path / "elsewhere")
    found = everything(history, reader)
    assert [entry.run for entry in found.entries] == ["run1", "run3", "run4"]
    assert (found.tracks[0].runs.tolist(), found.tracks[0].values.tolist()) == ([0, 1, 2], [1, 3, 4])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda whole: "{", "cannot be read"),
        (lambda whole: '{"schema_version": 99}', "schema 99"),
        (lambda whole: "", "cannot be read"),
        (lambda whole: whole.replace("2026-01-02T12:00:00+02:00", "yesterday"), "yesterday"),
    ],
    ids=["torn", "newer", "empty", "without a date"],
)
def test_an_unreadable_run_is_tried_again(history: History, tmp_path: Path, change: Callable[[str], str], words: str) -> None:
    file = tmp_path / "h/s/run2/run.json"
    whole = file.read_text()
    file.write_text(change(whole))
    bad = everything(history).entries[-1]
    assert bad.place == "s/run2"
    assert words in bad.problem
    file.write_text(whole)
    assert [entry.problem for entry in everything(history).entries] == [""] * 3


def test_machines_and_suites_have_own_tracks_and_versions_do_not(history: History, add: Add, run_info: RunInfo) -> None:
    add(4, environment={"processor": "Q", "torch": "2"})
    add(5, environment={"processor": "P", "torch": "3", "cuda": "13"})
    add(6, suite=run_info.suite.model_copy(update={"name": "t"}))
    found = everything(history)
    tracks = [track for track in found.tracks if track.cell == CELLS[0]]
    values = {(track.suite, track.machine): track.values.tolist() for track in tracks}
    assert values == {("s", "P"): [1, 2, 3, 5], ("s", "Q"): [4], ("t", "P"): [6]}
    first, last = found.entries[0], found.entries[4]
    assert first.changes_to(last, "a") == ["torch 2 → 3", "cuda none → 13"]
    assert first.changes_to(first, "a") == []


def test_the_base_of_a_comparison_is_listed_and_leaves_no_point(history: History, add: Add) -> None:
    add(4, id="4-base", interleaved="4")
    add(5, id="5-new", interleaved="5")

    def summarize(info: RunInfo, records: Iterable[Record]) -> Summary:
        return Summary((Point(CELLS[0], CELLS[0].key, "ok", "", {"time": 1.0}),))

    found = look_up(history, summarize, lambda *_: True, "time")
    assert [entry.base for entry in found.entries] == [False, False, False, True, False]
    assert found.tracks[0].runs.tolist() == [0, 1, 2, 4]


def same(one: Found, other: Found) -> bool:
    def rows(tracks: list[Track]) -> list[tuple[object, ...]]:
        return [(track.suite, track.cell, str(track.runs), str(track.values), track.reasons) for track in tracks]

    return one.entries == other.entries and rows(one.tracks) == rows(other.tracks)


def edit(file: Path, change: Callable[[bytes], bytes]) -> None:
    whole = file.read_bytes()
    assert change(whole) != whole
    file.write_bytes(change(whole))


def execute(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as base:
        base.execute(statement)
    base.close()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "garbage": lambda file: edit(file, lambda whole: b"no database" * 1000),
    "empty": lambda file: edit(file, lambda whole: b""),
    "cut in half": lambda file: edit(file, lambda whole: whole[: len(whole) // 2]),
    "a page of zeros": lambda file: edit(file, lambda whole: whole[:4096] + bytes(4096) + whole[8192:]),
    "other letters": lambda file: edit(file, lambda whole: whole.replace(b'"facts"', b'"faxts"')),
    "no letters": lambda file: edit(file, lambda whole: whole.replace(b'"facts"', b'"\xff\xfe\xfd\xfcs"')),
    "no cells": lambda file: edit(file, lambda whole: whole.replace(b'{"method"', b'{"mothed"')),
    "another version": lambda file: execute(file, f"pragma user_version = {VERSION + 1}"),
    "no failures": lambda file: execute(file, "delete from failures"),
    "a missing run": lambda file: execute(file, "delete from runs where id = 1"),
    "no points": lambda file: execute(file, "drop table points"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_an_index_that_is_damaged_is_made_anew(history: History, reader: Reader, damage: Callable[[Path], None]) -> None:
    whole = everything(history)
    damage(index_file(history))
    assert same(everything(history, reader), whole)
    assert reader.read[-3:] == ["run1", "run2", "run3"]
    known = len(reader.read)
    everything(history, reader)
    assert len(reader.read) == known


def test_without_a_cache_folder_every_look_reads_everything(history: History, reader: Reader, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where a folder should be")
    assert len(everything(history, reader).entries) == len(everything(history, reader).entries) == 3
    assert len(reader.read) == 6


def test_an_index_that_another_process_writes_is_told(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(history)
    monkeypatch.setattr("attnbench.store.index._WAIT", 0.01)
    base = sqlite3.connect(index_file(history), isolation_level=None)
    base.execute("begin exclusive")
    with pytest.raises(StoreError, match="another attnbench is at work"):
        everything(history)
    base.close()


def test_what_is_interrupted_goes_on_where_it_was(history: History, reader: Reader) -> None:
    def impatient(info: RunInfo, records: Iterable[Record]) -> Summary:
        if len(reader.read) == 2:
            raise KeyboardInterrupt
        return reader(info, records)

    with pytest.raises(KeyboardInterrupt):
        look_up(history, impatient, lambda *_: True, "time")
    everything(history, reader)
    assert reader.read == ["run1", "run2", "run3"]


def test_a_history_at_a_url_is_read_once_and_what_is_still_being_uploaded_is_tried_again(add: Add, reader: Reader) -> None:
    history = open_history("memory://indexed")
    MemoryFileSystem().pipe_file("/indexed/s/run1/records.jsonl", b"")
    assert "FileNotFoundError" in everything(history, reader).entries[0].problem
    for day in (1, 2):
        history.put(add(day).path, f"s/run{day}")
    for _ in range(2):
        assert [entry.run for entry in everything(history, reader).entries] == ["run1", "run2"]
    assert reader.read == ["run1", "run2"]
