"""Histories: run folders come as a whole or not at all, here and at URLs, and nothing is overwritten."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from attnbench.schema.run import RunInfo
from attnbench.store.history import History, HistoryError, LocalHistory, open_history, place_of
from attnbench.store.lock import LockedError, locked
from attnbench.store.run_folder import RunFolder, StoreError
from tests.store.conftest import Numbered


@pytest.fixture
def run(folder: RunFolder, numbered: Numbered) -> Path:
    """A run folder with everything that one may hold."""
    folder.append(numbered(1))
    (folder.path / "forward").mkdir()
    (folder.path / "forward" / "time.png").write_bytes(b"picture")
    (folder.path / ".table.md.partial").write_text("half")
    with locked(folder.lock):
        pass
    return folder.path


@pytest.fixture(params=["folder", "file://", "memory://"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    """An empty history of each kind."""
    kinds = {"folder": str(tmp_path / "h"), "file://": f"file://{tmp_path / 'h'}", "memory://": "memory://h/runs"}
    yield open_history(kinds[request.param])
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_a_run_that_was_added_is_read_back_whole(history: History, run: Path, run_info: RunInfo, numbered: Numbered) -> None:
    place = place_of(run_info)
    with pytest.raises(HistoryError, match=r"is not a folder|nothing is at"):
        history.places()
    assert not history.holds(place)
    history.put(run, place)
    assert history.holds(place)
    assert list(history.places()) == ["s/i"]
    with history.folder("s/i") as folder:
        assert (folder.info(), folder.records()) == (run_info, [numbered(1)])
    files, root = fsspec.url_to_fs(history.address)
    names = {str(name).removeprefix(f"{root}/s/i/") for name in files.find(root)}
    assert names == {"run.json", "records.jsonl", "forward/time.png"}


def test_a_run_that_is_being_written_or_has_a_link_in_it_is_not_taken(history: History, run: Path, tmp_path: Path) -> None:
    with locked(run / "run.lock"), pytest.raises(LockedError, match="still being written"):
        history.put(run, "s/i")
    (tmp_path / "mine").write_text("mine")
    for elsewhere in ("mine", "", "nowhere"):
        (run / "notes.txt").symlink_to(tmp_path / elsewhere)
        with pytest.raises(HistoryError, match=r"notes\.txt is a link"):
            history.put(run, "s/i")
        assert not history.holds("s/i")
        (run / "notes.txt").unlink()
    history.put(run, "s/i")
    assert history.holds("s/i")


def test_names_of_one_folder_are_one_history_and_no_password_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("h", "./h", str(tmp_path / "h"), f"file://{tmp_path / 'h'}")
    assert len({open_history(name).address for name in names}) == 1
    with pytest.raises(HistoryError, match=r"nothing is at memory://host/runs;"):
        open_history("memory://user:secret@host/runs").places()


def test_nothing_is_overwritten_or_left_half_copied(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = LocalHistory(tmp_path / "h")
    history.put(run, "s/i")
    (tmp_path / "h/s/i/records.jsonl").write_text("other")
    with pytest.raises(StoreError, match="cannot add"):
        history.put(run, "s/i")
    assert (tmp_path / "h/s/i/records.jsonl").read_text() == "other"

    def full(source: Path, target: Path) -> None:
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StoreError, match="No space left"):
        history.put(run, "s/j")
    assert [path.name for path in (tmp_path / "h/s").iterdir()] == ["i"]


def test_an_upload_that_is_cut_off_is_no_run_and_can_be_made_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, written = open_history("memory://cut"), []
    write = MemoryFileSystem.pipe_file

    def cut(self: MemoryFileSystem, path: str, value: bytes, **more: object) -> None:
        if path.endswith("run.json"):
            raise ConnectionResetError("peer went away")
        written.append(Path(path).name)
        write(self, path, value, **more)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "pipe_file", cut)
        with pytest.raises(StoreError, match=r"memory:.*cannot take .*ConnectionResetError: peer went away"):
            history.put(run, "s/i")
    assert set(written) == {"records.jsonl", "time.png"}
    assert not history.holds("s/i")
    with pytest.raises(StoreError, match="has no s/i that could be read: FileNotFoundError"), history.folder("s/i"):
        pass
    history.put(run, "s/i")
    assert history.holds("s/i")


def test_only_runs_are_listed_with_a_stamp_of_their_records(folder: RunFolder, tmp_path: Path, numbered: Numbered) -> None:
    results = tmp_path / "results"
    for name in ("reference/machine/s/i", "s/.i.1234.partial", ".hidden/run"):
        (results / name).mkdir(parents=True)
        shutil.copy(folder.path / "run.json", results / name)
    (results / "README.md").write_text("about")
    stamps = set()
    for number in range(3):
        places = LocalHistory(results).places()
        assert list(places) == ["s/i"]
        stamps.add(places["s/i"])
        folder.append(numbered(number))
    assert len(stamps) == 3
    # one that cannot be looked at is listed, and so are the others
    (results / "s/j").mkdir()
    (results / "s/j/records.jsonl").symlink_to("nowhere")
    places = LocalHistory(results).places()
    assert {place: "No such file" in stamp for place, stamp in places.items()} == {"s/i": False, "s/j": True}


def test_a_url_of_which_nothing_is_known_is_refused_in_words() -> None:
    with pytest.raises(HistoryError, match="gdrive:// needs another package"):
        open_history("gdrive://x")
    with pytest.raises(HistoryError, match="one address within another is no place for a history"):
        open_history("simplecache::file:///etc")
