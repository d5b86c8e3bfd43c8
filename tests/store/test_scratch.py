"""Folders for a moment: gone when they are done with, and when their process was killed, with the next; never before."""

import tempfile
from pathlib import Path

import pytest

from attnbench.store.scratch import scratch
from tests.store.conftest import Start

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
