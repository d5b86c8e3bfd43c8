"""What is kept in the cache folder: answers of methods, the highest roofs, noise floors, and the index of a history."""

import math
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Roof, Surroundings
from attnbench.schema.history import Point, Summary
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.store import cache as module
from attnbench.store.cache import (
    keep_answer,
    keep_noise_floor,
    known_answer,
    known_noise_floor,
    known_roofs,
    with_highest_roofs,
)
from attnbench.store.history import History, open_history
from attnbench.store.index import VERSION, Found, index_file, look_up
from attnbench.store.run_folder import RunFolder, StoreError
from tests.store.conftest import Numbered

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("changed", ["family/one.py", "family/shared.py", "__init__.py", ".."])
def test_an_answer_is_known_until_its_package_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    package = tmp_path / "site" / "asked_package"
    (package / "family").mkdir(parents=True)
    for name in ("__init__.py", "family/__init__.py", "family/one.py", "family/shared.py"):
        (package / name).write_text('"""."""\n')
    entry = EntryPoint(name="mine.one", value="asked_package.family.one:One", group="attnbench.impls")
    about = {"method": "mine.one", "paper": "", "tier": "eager", "causality": "full", "summary": "", "version": "1"}
    answer = Description(**about, parameters=("a",))  # type: ignore[arg-type]
    module._newest.cache_clear()
    assert known_answer(entry) is None
    keep_answer(entry, answer)
    assert known_answer(entry) == answer
    # another process asks later: what was found in this one is found anew
    module._newest.cache_clear()
    later = (package / changed).stat().st_mtime + 10**9
    os.utime(package / changed, (later, later))
    assert known_answer(entry) is None


def seen(products: float, copies: float, cached: float | None = None, name: str = "float32") -> Surroundings:
    roof = Roof(flops_per_second=products, bytes_per_second=copies, cached_bytes_per_second=cached)
    return Surroundings(device="cpu", facts={}, memory_bytes=1, roof={name: roof})


def test_a_busy_machine_lowers_no_roof_a_quiet_one_raises_each_and_dtypes_and_environments_have_their_own() -> None:
    with_highest_roofs("e", seen(30, 10, 50))
    assert with_highest_roofs("e", seen(17, 12, None)) == known_roofs("e") == seen(30, 12, 50)
    assert with_highest_roofs("e", seen(5, 5, name="bfloat16")) == seen(5, 5, name="bfloat16")
    assert with_highest_roofs("other", seen(17, 10)) == seen(17, 10)
    known = known_roofs("e")
    assert known is not None
    assert set(known.roof) == {"float32", "bfloat16"}


def floor(environment: str = "abc", *smallest: tuple[int, float]) -> module.NoiseFloor:
    known = smallest or ((3, 0.09), (5, 0.05), (10, 0.03))
    return module.NoiseFloor(environment=environment, device="cpu", about="m, N=8", run="r", verdicts=200, smallest=known)


def test_the_last_noise_floor_is_known_in_its_own_environment_only_which_is_a_name_and_never_a_path(cache: Path) -> None:
    assert known_noise_floor("abc") is None
    keep_noise_floor(floor())
    keep_noise_floor(floor("abc", (5, 0.2)))
    assert known_noise_floor("abc") == floor("abc", (5, 0.2))
    assert known_noise_floor("abd") is None
    keep_noise_floor(floor("../../x"))
    assert [file.parent for file in cache.parent.rglob("*") if file.is_file()] == [cache] * 2


@pytest.mark.parametrize(("replicates", "share"), [(2, 0.09), (3, 0.09), (5, 0.05), (10, 0.03), (40, 0.015)])
def test_beyond_the_counts_that_were_tried_the_floor_sinks_with_the_square_root(replicates: int, share: float | None) -> None:
    assert floor().at(replicates) == share
    assert floor().model_copy(update={"smallest": ()}).at(replicates) is None, "no effect was found"


def test_a_spoilt_file_or_a_cache_that_cannot_be_written_or_read_is_as_good_as_none(cache: Path) -> None:
    keep_noise_floor(floor())
    (file,) = cache.iterdir()
    for content in (b"", b"{", b"[]", b"\xff", b'{"environment": "abc"}'):
        file.write_bytes(content)
        assert known_noise_floor("abc") is None
    cache.rename(cache.with_name("moved"))
    cache.write_text("a file")
    keep_noise_floor(floor())
    assert known_noise_floor("abc") is None
    assert with_highest_roofs("e", seen(30, 10)) == seen(30, 10)
    assert known_roofs("e") is None


# the index of a history: only what is new is read, and a damaged one is made anew

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
    assert (track.counters.tolist(), track.failures.tolist()) == ([1] * 3, [-1] * 3)
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
        (lambda whole: whole.replace("2026-01-02T12:00:00+02:00", "yesterday"), "yesterday"),
    ],
    ids=["torn", "newer", "without a date"],
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


def rows(found: Found) -> list[tuple[object, ...]]:
    return [(track.suite, track.cell, str(track.runs), str(track.values), track.reasons) for track in found.tracks]


Damage = str | Callable[[bytes], bytes]
"""A statement, or what becomes of the bytes of the file."""
DAMAGES: dict[str, Damage] = {
    "garbage": lambda whole: b"no database" * 1000,
    "empty": lambda whole: b"",
    "cut in half": lambda whole: whole[: len(whole) // 2],
    "a page of zeros": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
    "other letters": lambda whole: whole.replace(b'"facts"', b'"faxts"'),
    "no letters": lambda whole: whole.replace(b'"facts"', b'"\xff\xfe\xfd\xfcs"'),
    "no cells": lambda whole: whole.replace(b'{"method"', b'{"mothed"'),
    "another version": f"pragma user_version = {VERSION + 1}",
    "no failures": "delete from failures",
    "a missing run": "delete from runs where id = 1",
    "no points": "drop table points",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_an_index_that_is_damaged_is_made_anew(history: History, reader: Reader, damage: Damage) -> None:
    whole, file = everything(history), index_file(history)
    if isinstance(damage, str):
        with closing(sqlite3.connect(file)) as base, base:
            base.execute(damage)
    else:
        before = file.read_bytes()
        file.write_bytes(damage(before))
        assert file.read_bytes() != before
    again = everything(history, reader)
    assert (again.entries, rows(again)) == (whole.entries, rows(whole))
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
