"""Files are written as a whole or not at all, never through what somebody else put there, and a pipe is no file."""

import os
import stat
import threading
from pathlib import Path

import pytest

from attnbench.store.files import write_durably, write_named, write_within


def test_a_file_and_the_folders_on_the_way_to_it_are_made(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    assert write_within(folder, "a/b/c.txt", b"one") == folder / "a/b/c.txt"
    write_within(folder, "a/b/c.txt", b"two", durably=True)
    longest = "x" * 255
    write_within(folder, longest, b"long")
    found = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert found == {"a/b/c.txt": b"two", longest: b"long"}
    (tmp_path / "link").symlink_to(folder)
    write_within(tmp_path / "link", "b", b"1")
    assert (folder / "b").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["../mine", "a/../../mine", "/tmp/mine", ".."])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads out of"):
        write_within(tmp_path, name, b"new")


def test_what_cannot_be_written_names_its_file_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_durably(tmp_path / "a", b"new")
    assert caught.value.filename == str(tmp_path / "a")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    with pytest.raises(FileNotFoundError):
        write_durably(tmp_path / "gone" / "a", b"new")
    assert not (tmp_path / "gone").exists()


def test_a_file_that_a_user_names_is_replaced_as_a_whole_and_a_link_is_written_through(tmp_path: Path) -> None:
    (mine := tmp_path / "mine").write_text("mine")
    before = mine.stat().st_ino
    write_named(mine, b"new")
    assert mine.read_bytes() == b"new"
    assert mine.stat().st_ino != before
    (tmp_path / "out").symlink_to(mine)
    write_named(tmp_path / "out", b"newer")
    assert (tmp_path / "out").is_symlink()
    assert mine.read_bytes() == b"newer"
    write_named(tmp_path / "new" / "folder" / "file", b"new")
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == b"new"


def test_a_pipe_that_a_user_names_stays_one_and_its_reader_gets_all_of_it(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_named(pipe, b"new")
    reader.join()
    assert found == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_that_a_user_names_is_written_into_and_that_it_is_full_is_told(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    write_named(Path(os.ttyname(theirs)), b"new")
    assert os.read(ours, 100) == b"new"
    os.close(ours)
    os.close(theirs)
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_named(tmp_path / "out", b"new")
