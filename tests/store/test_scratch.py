"""Folders for a moment: gone when they are done with, and when their process was killed, with the next; never before."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from attnbench.store.scratch import scratch

KEEPER = """
import signal, sys
from attnbench.store.scratch import scratch
with scratch() as folder:
    (folder / "errand.json").write_text("{}")
    print(folder, flush=True)
    signal.pause()
"""
Keep = Callable[[], tuple[subprocess.Popen[str], Path]]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, of this test and of the processes that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Start a process that uses such a folder; the process, and the folder."""
    with ExitStack() as stack:

        def _start() -> tuple[subprocess.Popen[str], Path]:
            command = [sys.executable, "-c", KEEPER]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, Path(process.stdout.readline().rstrip())

        yield _start


def test_a_folder_is_gone_afterwards_whatever_happened(temporary: Path) -> None:
    with pytest.raises(NotADirectoryError), scratch() as folder:  # noqa: PT012 - the folder is filled first
        (folder / "below").mkdir()
        (folder / "errand.json").touch()
        (folder / "errand.json" / "below").mkdir()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_with_the_next_and_what_a_living_one_uses_stays(
    temporary: Path, keep: Keep
) -> None:
    living, used = keep()
    killed, left = keep()
    killed.kill()
    killed.wait()
    assert left.is_dir()
    with scratch() as folder:
        assert set(temporary.iterdir()) == {folder, used}
        assert (used / "errand.json").is_file()
    assert living.poll() is None


def test_several_folders_of_one_process_do_not_take_each_other_for_left_behind() -> None:
    with scratch() as first, scratch() as second:
        with scratch():
            pass
        assert first.is_dir()
        assert second.is_dir()


@pytest.mark.parametrize("name", ["attnbench-scratch-", "attnbench-scratch-Of_Mine", "attnbench-results", "attnbench-12345678"])
def test_a_folder_that_only_resembles_one_is_left_alone(temporary: Path, name: str) -> None:
    (temporary / name).mkdir()
    with scratch():
        pass
    assert (temporary / name).is_dir()


def test_a_link_that_is_called_like_one_is_not_followed(temporary: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").touch()
    (temporary / "attnbench-scratch-12345678").symlink_to(precious)
    with scratch():
        pass
    assert (precious / "file").exists()
