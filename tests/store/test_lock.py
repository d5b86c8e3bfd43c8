"""One writer a folder: a second is refused and told who holds it, and a dead holder's lock is taken over."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnbench.store.lock import FolderLock, LockedError

HOLDER = Path(__file__).parent / "lock_holder.py"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, str(HOLDER), str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(
        LockedError, match=f"{tmp_path} is being written by process {holder.pid} on {socket.gethostname()} since 20"
    ):
        FolderLock(tmp_path / "run.lock").__enter__()
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path / "run.lock") as lock:
        assert lock.took_over is not None
        assert f"process {holder.pid} on {socket.gethostname()}" in lock.took_over


def test_a_refused_process_leaves_the_lock_as_it_is(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    before = (tmp_path / "run.lock").read_text()
    for _ in range(2):
        with pytest.raises(LockedError):
            FolderLock(tmp_path / "run.lock").__enter__()
    assert (tmp_path / "run.lock").read_text() == before
    assert json.loads(before)["pid"] == holder.pid


def test_a_lock_that_was_given_back_is_not_taken_over(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "run.lock") as first:
        assert first.took_over is None
        assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()
    with FolderLock(tmp_path / "run.lock") as second:
        assert second.took_over is None


def test_a_lock_is_given_back_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), FolderLock(tmp_path / "run.lock"):
        raise ZeroDivisionError
    with FolderLock(tmp_path / "run.lock") as lock:
        assert lock.took_over is None


@pytest.mark.parametrize("content", [b"x", b"{", b"[1]", b"{}x", b"3", b"\xff\xfe", b"\0" * 99, b'{"pid": 1}', b"[" * 100_000])
def test_a_lock_file_with_garbage_is_an_unknown_process(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.lock").write_bytes(content)
    with FolderLock(tmp_path / "run.lock") as lock:
        assert lock.took_over == "an unknown process"
        assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()


def test_a_lock_that_is_a_link_or_a_pipe_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run.lock").symlink_to("mine")
    with pytest.raises(LockedError, match="it is a link, and nothing is written through a link"):
        FolderLock(tmp_path / "run.lock").__enter__()
    assert (tmp_path / "mine").read_text() == "mine"
    (tmp_path / "run.lock").unlink()
    os.mkfifo(tmp_path / "run.lock")
    with pytest.raises(LockedError, match="it is not a regular file"):
        FolderLock(tmp_path / "run.lock").__enter__()


def test_a_folder_that_is_none_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(LockedError, match=r"cannot be locked \(No such file or directory\)"):
        FolderLock(tmp_path / "none" / "run.lock").__enter__()


def test_a_file_system_without_locks_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LockedError, match=rf"{tmp_path} cannot be locked \(No locks available\); use a local folder"):
        FolderLock(tmp_path / "run.lock").__enter__()


def test_a_folder_that_is_read_only_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LockedError, match=rf"{tmp_path} cannot be locked \(Read-only file system\)"):
        FolderLock(tmp_path / "run.lock").__enter__()
