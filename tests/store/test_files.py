"""Files are written as a whole or not at all, never through what somebody else put there, and a pipe is no file."""

import os
import stat
import threading
from pathlib import Path

import pytest

from attnbench.store.files import open_to_read, open_to_write, write_durably, write_named, write_within


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the user's with a file in it, which no stranger's folder may touch."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("mine")
    return tmp_path / "elsewhere"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that may be a stranger's."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def test_a_file_and_the_folders_on_the_way_to_it_are_made(folder: Path) -> None:
    assert write_within(folder, "a/b/c.txt", b"one") == folder / "a/b/c.txt"
    write_within(folder, "a/b/c.txt", b"two", durably=True)
    assert [(file.relative_to(folder).as_posix(), file.read_bytes()) for file in folder.rglob("*") if file.is_file()] == [
        ("a/b/c.txt", b"two")
    ]


def test_the_longest_name_can_be_written(folder: Path) -> None:
    write_within(folder, "x" * 255, b"long")
    assert (folder / ("x" * 255)).read_bytes() == b"long"


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_leads_to_stays(folder: Path, elsewhere: Path) -> None:
    (folder / "table.csv").symlink_to(elsewhere / "mine")
    write_within(folder, "table.csv", b"new")
    assert (folder / "table.csv").read_bytes() == b"new"
    assert not (folder / "table.csv").is_symlink()
    assert (elsewhere / "mine").read_text() == "mine"


def test_a_link_in_the_place_of_a_folder_is_not_followed(folder: Path, elsewhere: Path) -> None:
    (folder / "forward").symlink_to(elsewhere)
    with pytest.raises(OSError, match="forward is not a folder, or is a link, which is not followed"):
        write_within(folder, "forward/time.png", b"new")
    assert [file.name for file in elsewhere.iterdir()] == ["mine"]


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    write_within(tmp_path / "link", "a", b"1")
    assert (folder / "a").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["../mine", "a/../../mine", "/tmp/mine", ".."])
def test_a_name_that_leads_out_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads out of"):
        write_within(folder, name, b"new")


def test_what_cannot_be_written_names_its_file_and_leaves_nothing_half_written(folder: Path) -> None:
    (folder / "a").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_durably(folder / "a", b"new")
    assert caught.value.filename == str(folder / "a")
    assert [file.name for file in folder.iterdir()] == ["a"]


def test_a_folder_that_is_gone_is_not_made_again(folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        write_durably(folder / "a", b"new")
    assert not folder.exists()


def test_a_file_that_a_user_names_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    before = (tmp_path / "out").stat().st_ino
    write_named(tmp_path / "out", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert (tmp_path / "out").stat().st_ino != before


def test_a_link_that_a_user_names_stays_one_and_is_written_through(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "out").symlink_to(elsewhere / "mine")
    write_named(tmp_path / "out", b"new")
    assert (tmp_path / "out").is_symlink()
    assert (elsewhere / "mine").read_bytes() == b"new"


def test_a_pipe_that_a_user_names_stays_one_and_its_reader_gets_all_of_it(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_named(pipe, b"new")
    reader.join()
    assert found == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_that_a_user_names_is_written_into() -> None:
    ours, theirs = os.openpty()
    write_named(Path(os.ttyname(theirs)), b"new")
    assert os.read(ours, 100) == b"new"
    os.close(ours)
    os.close(theirs)


def test_a_full_device_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_named(tmp_path / "out", b"new")


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="it is not a regular file"):
            open_to_read(tmp_path / name)


def test_a_file_is_not_changed_through_a_link_and_a_pipe_is_no_file(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "link").symlink_to(elsewhere / "mine")
    with pytest.raises(OSError, match="it is a link, and nothing is written through a link"):
        open_to_write(tmp_path / "link", os.O_RDWR | os.O_CREAT)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        open_to_write(tmp_path / "pipe", os.O_RDWR)
