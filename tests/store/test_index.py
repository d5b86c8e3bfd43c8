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
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda whole: b"no database" * 1000,
    "empty": lambda whole: b"",
    "cut in half": lambda whole: whole[: len(whole) // 2],
    "a page of zeros": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
    "other letters": lambda whole: whole.replace(b'"facts"', b'"faxts"'),
    "no letters": lambda whole: whole.replace(b'"facts"', b'"\xff\xfe\xfd\xfcs"'),
    "no cells": lambda whole: whole.replace(b'{"method"', b'{"mothed"'),
}


class Reader:
    """Boils runs down, and counts them."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, info: RunInfo, records: Iterable[Record]) -> Summary:
        self.read.append(info.id)
        notes = [record.note for record in records]
        assert "fail" not in notes, "a run that is to fail"
        day = int(info.id.removeprefix("run"))
        return Summary(tuple(self.point(cell, day + len(notes)) for cell in CELLS), unfinished=2)

    @staticmethod
    def point(cell: Cell, value: float) -> Point:
        if cell == CELLS[3]:
            return Point(cell, cell.key, "oom_host", f"too large by {value}")
        return Point(cell, cell.key, "ok", "", {"time": value, "memory": 2.0**20}, 0.01, "rss (VmHWM)")


@pytest.fixture
def add(tmp_path: Path, run_info: RunInfo) -> Callable[..., RunFolder]:
    """Make a run of a day."""

    def _add(day: int, **more: object) -> RunFolder:
        started = f"2026-01-{day:02}T12:00:00+02:00"
        changes: dict[str, object] = {"id": f"run{day}", "started": started, "environment": {"processor": "P", "torch": "2"}}
        return RunFolder.create(tmp_path / "h", run_info.model_copy(update=changes | more))

    return _add


@pytest.fixture
def history(tmp_path: Path, add: Callable[..., RunFolder]) -> History:
    """Three runs, which were not added in the order in which they were started."""
    for day in (3, 1, 2):
        add(day)
    return open_history(str(tmp_path / "h"))


def everything(history: History, reader: Reader | None = None, quantity: str = "time") -> Found:
    return look_up(history, reader or Reader(), lambda *_: True, quantity)


def test_runs_are_in_the_order_in_which_they_were_started(history: History) -> None:
    entries = everything(history).entries
    assert [entry.run for entry in entries] == ["run1", "run2", "run3"]
    first = entries[0]
    assert (first.suite, first.started, first.machine) == ("s", "2026-01-01T10:00:00+00:00", "P")
    assert (first.ok, first.failed, first.unfinished, first.problem) == (3, 1, 2, "")


def test_a_track_holds_what_each_run_came_to(history: History) -> None:
    tracks = everything(history).tracks
    assert [track.cell for track in tracks] == CELLS
    assert tracks[0].runs.tolist() == [0, 1, 2]
    assert tracks[0].values.tolist() == [1, 2, 3]
    assert tracks[0].spread.tolist() == [0.01] * 3
    assert everything(history, quantity="memory").tracks[0].values.tolist() == [2**20] * 3
    assert np.isnan(everything(history, quantity="loss").tracks[0].values).all()
    assert [tracks[0].names[i] for i in tracks[0].counters] == ["rss (VmHWM)"] * 3
    assert tracks[0].failures.tolist() == [-1] * 3


def test_a_failure_is_kept_with_its_reason_and_has_no_number(history: History) -> None:
    failed = everything(history).tracks[3]
    assert all(map(math.isnan, failed.values))
    assert [failed.reasons[i] for i in failed.failures] == [("oom_host", f"too large by {day}") for day in (1, 2, 3)]
    assert failed.counters.tolist() == [-1] * 3


def test_only_the_tracks_that_are_wanted_are_given(history: History) -> None:
    found = look_up(history, Reader(), lambda suite, cell: suite == "s" and cell.method == "b", "time")
    assert [track.cell for track in found.tracks] == CELLS[2:]


def test_a_second_look_reads_only_what_is_new(history: History, add: Callable[..., RunFolder]) -> None:
    reader, said = Reader(), []
    everything(history, reader)
    everything(history, reader)
    add(4)
    found = look_up(history, reader, lambda *_: True, "time", lambda *counts: said.append(counts))
    assert reader.read == ["run1", "run2", "run3", "run4"]
    assert said == [(0, 1), (1, 1)]
    assert found.tracks[0].values.tolist() == [1, 2, 3, 4]


def test_a_run_that_went_on_is_read_again(history: History, tmp_path: Path, numbered: Numbered) -> None:
    reader = Reader()
    everything(history, reader)
    RunFolder(tmp_path / "h/s/run2").append(numbered(7))
    assert everything(history, reader).tracks[0].values.tolist() == [1, 3, 3]
    assert reader.read[3:] == ["run2"]


def test_a_run_that_is_gone_is_forgotten(history: History, tmp_path: Path) -> None:
    everything(history)
    (tmp_path / "h/s/run2").rename(tmp_path / "elsewhere")
    found = everything(history)
    assert [entry.run for entry in found.entries] == ["run1", "run3"]
    assert found.tracks[0].values.tolist() == [1, 3]
    assert found.tracks[0].runs.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ('{"schema_version": 99}', "schema 99"), ("", "cannot be read")],
)
def test_a_run_that_cannot_be_read_says_why_and_is_tried_again(
    history: History, tmp_path: Path, text: str, words: str, run_info: RunInfo
) -> None:
    file = tmp_path / "h/s/run2/run.json"
    whole = file.read_text()
    file.write_text(text)
    bad = everything(history).entries[-1]
    assert bad.place == "s/run2"
    assert words in bad.problem
    file.write_text(whole)
    assert [entry.problem for entry in everything(history).entries] == [""] * 3


def test_a_run_without_a_date_is_one_that_cannot_be_read(history: History, add: Callable[..., RunFolder]) -> None:
    add(4, started="yesterday")
    assert "yesterday" in everything(history).entries[-1].problem


def test_machines_and_suites_have_tracks_of_their_own_and_versions_do_not(
    history: History, add: Callable[..., RunFolder], run_info: RunInfo
) -> None:
    add(4, environment={"processor": "Q", "torch": "2"})
    add(5, environment={"processor": "P", "torch": "3"})
    add(6, suite=run_info.suite.model_copy(update={"name": "t"}), environment={"processor": "P", "torch": "2"})
    tracks = [track for track in everything(history).tracks if track.cell == CELLS[0]]
    found = {(track.suite, track.machine): track.values.tolist() for track in tracks}
    assert found == {("s", "P"): [1, 2, 3, 5], ("s", "Q"): [4], ("t", "P"): [6]}


def test_what_changed_between_two_runs_is_told(history: History, add: Callable[..., RunFolder]) -> None:
    add(4, environment={"processor": "P", "torch": "3", "cuda": "13"})
    first, *_, last = everything(history).entries
    assert first.changes_to(last, "a") == ["torch 2 → 3", "cuda none → 13"]
    assert first.changes_to(first, "a") == []


def test_the_base_of_a_comparison_is_listed_and_leaves_no_point(history: History, add: Callable[..., RunFolder]) -> None:
    add(4, id="4-base", interleaved="4")
    add(5, id="5-new", interleaved="5")

    def summarize(info: RunInfo, records: Iterable[Record]) -> Summary:
        return Summary((Reader.point(CELLS[0], 1.0),))

    found = look_up(history, summarize, lambda *_: True, "time")
    assert [entry.base for entry in found.entries] == [False, False, False, True, False]
    assert found.tracks[0].runs.tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_index_is_made_anew(history: History, damage: Callable[[bytes], bytes]) -> None:
    whole = everything(history)
    file = index_file(history)
    assert damage(file.read_bytes()) != file.read_bytes()
    file.write_bytes(damage(file.read_bytes()))
    reader = Reader()
    assert same(everything(history, reader), whole)
    assert reader.read == ["run1", "run2", "run3"]
    everything(history, reader)
    assert len(reader.read) == 3


def same(one: Found, other: Found) -> bool:
    def rows(tracks: list[Track]) -> list[tuple[object, ...]]:
        return [(track.suite, track.cell, str(track.runs), str(track.values), track.reasons) for track in tracks]

    return one.entries == other.entries and rows(one.tracks) == rows(other.tracks)


def test_an_index_of_another_version_is_made_anew(history: History) -> None:
    everything(history)
    with sqlite3.connect(index_file(history)) as base:
        base.execute(f"pragma user_version = {VERSION + 1}")
    base.close()
    reader = Reader()
    everything(history, reader)
    assert len(reader.read) == 3


def test_an_index_in_which_something_is_missing_is_made_anew(history: History) -> None:
    whole = everything(history)
    for statement in ("delete from failures", "delete from runs where id = 1", "drop table points"):
        with sqlite3.connect(index_file(history)) as base:
            base.execute(statement)
        base.close()
        assert same(everything(history), whole), statement


def test_without_a_cache_folder_every_look_reads_everything(history: History, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where a folder should be")
    reader = Reader()
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


def test_what_is_interrupted_goes_on_where_it_was(history: History) -> None:
    reader = Reader()

    def impatient(info: RunInfo, records: Iterable[Record]) -> Summary:
        if len(reader.read) == 2:
            raise KeyboardInterrupt
        return reader(info, records)

    with pytest.raises(KeyboardInterrupt):
        look_up(history, impatient, lambda *_: True, "time")
    everything(history, reader)
    assert reader.read == ["run1", "run2", "run3"]


def test_a_history_at_a_url_is_read_once(add: Callable[..., RunFolder]) -> None:
    history, reader = open_history("memory://indexed"), Reader()
    for day in (1, 2):
        history.put(add(day).path, f"s/run{day}")
    everything(history, reader)
    assert [entry.run for entry in everything(history, reader).entries] == ["run1", "run2"]
    assert reader.read == ["run1", "run2"]


def test_a_run_that_is_still_being_uploaded_is_tried_again(add: Callable[..., RunFolder]) -> None:
    history, reader = open_history("memory://uploaded"), Reader()
    MemoryFileSystem().pipe_file("/uploaded/s/run1/records.jsonl", b"")
    assert "FileNotFoundError" in everything(history, reader).entries[0].problem
    history.put(add(1).path, "s/run1")
    assert [entry.run for entry in everything(history, reader).entries] == ["run1"]
