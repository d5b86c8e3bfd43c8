"""One writer a folder, and folders for a moment: of a dead process they are taken over or removed, of a living one never."""

import errno
import fcntl
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest

from attnbench.store.lock import LockedError, locked
from attnbench.store.scratch import scratch
from tests.store.conftest import Start, refusing

HOLDER = """
import signal, sys
from pathlib import Path
from attnbench.store.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock file of a folder."""
    return tmp_path / "run.lock"


def test_a_second_process_is_refused_until_the_first_is_gone(lock: Path, start: Start) -> None:
    holder, _ = start(HOLDER, str(lock))
    before = lock.read_text()
    held_by = f"process {holder.pid} on {socket.gethostname()} since 20"
    # a refusal leaves the lock as it is
    for _ in range(2):
        with pytest.raises(LockedError, match=f"{lock.parent} is being written by {held_by}"):
            locked(lock).__enter__()
    assert lock.read_text() == before
    holder.kill()
    holder.wait()
    with locked(lock) as again:
        assert (again or "").startswith(held_by)


def test_a_lock_that_was_given_back_is_not_taken_over_also_where_its_run_failed(lock: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(lock) as first:  # noqa: PT012 - the run fails within
        assert first is None
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        raise ZeroDivisionError
    with locked(lock) as second:
        assert second is None


@pytest.mark.parametrize("content", [b"x", b"{", b"[1]", b"{}x", b"3", b"\xff\xfe", b"\0" * 99, b'{"pid": 1}', b"[" * 100_000])
def test_a_lock_file_with_garbage_is_an_unknown_process(lock: Path, content: bytes) -> None:
    lock.write_bytes(content)
    with locked(lock) as taken:
        assert taken == "an unknown process"
        assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_a_lock_that_is_a_link_or_a_pipe_is_refused_and_what_it_leads_to_stays(lock: Path) -> None:
    mine = lock.with_name("mine")
    mine.write_text("mine")
    lock.symlink_to(mine)
    with pytest.raises(LockedError, match="it is a link, and nothing is written through a link"):
        locked(lock).__enter__()
    assert mine.read_text() == "mine"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(LockedError, match="it is not a regular file"):
        locked(lock).__enter__()


def test_a_file_system_without_locks_is_refused_in_words(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))
    with pytest.raises(LockedError, match=rf"{lock.parent} cannot be locked \(No locks available\); use a local folder"):
        locked(lock).__enter__()


def test_a_disk_that_takes_not_even_the_lock_is_told_with_the_file(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", refusing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device") as error:
        locked(lock).__enter__()
    assert error.value.filename == str(lock)


def test_a_folder_that_is_read_only_is_refused_in_words(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LockedError, match=r"cannot be locked \(No such file or directory\)"):
        locked(lock.parent / "none" / lock.name).__enter__()
    monkeypatch.setattr(os, "open", refusing(errno.EROFS))
    with pytest.raises(LockedError, match=rf"{lock.parent} cannot be locked \(Read-only file system\)"):
        locked(lock).__enter__()


# folders for a moment


KEEPER = """
import signal
from attnbench.store.scratch import scratch
with scratch() as folder:
    (folder / "errand.json").write_text("{}")
    print(folder, flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, of this test and of the processes that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_is_gone_afterwards_whatever_happened_and_never_before(temporary: Path) -> None:
    with pytest.raises(NotADirectoryError), scratch() as folder:  # noqa: PT012 - the folder is filled first
        (folder / "below").mkdir()
        (folder / "errand.json").touch()
        (folder / "errand.json" / "below").mkdir()
    assert list(temporary.iterdir()) == []
    with scratch() as first, scratch() as second:
        with scratch():
            pass
        assert first.is_dir()
        assert second.is_dir()


def test_what_a_killed_process_left_is_removed_with_the_next_and_what_a_living_one_uses_stays(
    temporary: Path, start: Start
) -> None:
    living, used = start(KEEPER)
    killed, left = start(KEEPER)
    killed.kill()
    killed.wait()
    assert Path(left).is_dir()
    with scratch() as folder:
        assert set(temporary.iterdir()) == {folder, Path(used)}
        assert (Path(used) / "errand.json").is_file()
    assert living.poll() is None


def test_what_only_resembles_a_folder_left_behind_is_left_alone(temporary: Path) -> None:
    names = ("attnbench-scratch-", "attnbench-scratch-Of_Mine", "attnbench-results", "attnbench-12345678")
    for name in names:
        (temporary / name).mkdir()
    precious = temporary / "attnbench-results" / "file"
    precious.touch()
    (temporary / "attnbench-scratch-12345678").symlink_to(precious.parent)
    with scratch():
        pass
    assert all((temporary / name).is_dir() for name in names)
    assert precious.exists()
