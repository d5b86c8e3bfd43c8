"""Records on disk: what was reported as written is there, whatever happened to the file since."""

import errno
import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.schema.record import VERSION, Record
from attnbench.store.run_folder import RunFolder, StoreError
from tests.store.conftest import Numbered


def notes(records: list[Record]) -> list[int]:
    return [int(record.note) for record in records]


def records_file(folder: RunFolder) -> Path:
    return folder.path / "records.jsonl"


def aside(folder: RunFolder) -> bytes:
    return (folder.path / "records.aside").read_bytes()


def fill(folder: RunFolder, numbered: Numbered, count: int = 3) -> bytes:
    for number in range(count):
        folder.append(numbered(number))
    return records_file(folder).read_bytes()


def test_what_is_appended_is_read_back_in_order(folder: RunFolder, numbered: Numbered) -> None:
    fill(folder, numbered)
    assert folder.records() == folder.repair() == [numbered(number) for number in range(3)]
    assert folder.set_aside == []


def test_a_new_folder_has_no_records_and_reading_makes_none(folder: RunFolder) -> None:
    assert folder.records() == folder.repair() == []
    assert {file.name for file in folder.path.iterdir()} == {"run.json"}


def pack(folder: RunFolder, ending: str = "jsonl.gz") -> Path:
    """What `gzip records.jsonl` does, or an export as Parquet."""
    packed = records_file(folder).with_suffix(f".{ending}")
    if ending == "parquet":
        from pyarrow import parquet, table

        parquet.write_table(table({"record": records_file(folder).read_text().splitlines()}), packed, write_page_checksum=True)
    else:
        packed.write_bytes(gzip.compress(records_file(folder).read_bytes()))
    records_file(folder).unlink()
    return packed


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_compressed_records_are_read_and_expanded_before_more_are_added(
    folder: RunFolder, numbered: Numbered, ending: str
) -> None:
    whole = fill(folder, numbered)
    packed = pack(folder, ending)
    assert notes(RunFolder(folder.path).records()) == [0, 1, 2]
    assert packed.exists()
    again = RunFolder(folder.path)
    assert notes(again.repair()) == [0, 1, 2]
    assert (records_file(folder).read_bytes(), packed.exists()) == (whole, False)
    again.append(numbered(3))
    assert notes(again.records()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-9], lambda data: b"x" + data, lambda data: data[:30] + b"xxxx" + data[34:]]
)
@pytest.mark.parametrize("call", ["records", "repair"])
@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_compressed_records_that_are_torn_are_a_store_error_and_stay(
    folder: RunFolder, numbered: Numbered, call: str, ending: str, spoil: Callable[[bytes], bytes]
) -> None:
    fill(folder, numbered)
    packed = pack(folder, ending)
    packed.write_bytes(spoil(packed.read_bytes()))
    with pytest.raises(StoreError, match=r"cannot read .*records\."):
        getattr(RunFolder(folder.path), call)()
    assert packed.exists()


def test_a_last_line_torn_at_any_byte_is_set_aside_and_the_rest_is_kept(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fill(folder, numbered)
    # some dozens of repairs; what they leave in the files is the matter here, not the disk
    monkeypatch.setattr(os, "fsync", id)
    start = whole.rindex(b"\n", 0, -1) + 1
    # no part of a line is JSON: the first and the last bytes, those of letters that have several, and some of the others
    letters = [at for at in range(start, len(whole)) if whole[at] > 127]
    assert len(letters) == 9
    for cut in sorted({start + 1, start + 2, len(whole) - 2, *range(start + 1, len(whole) - 1, 41), *letters}):
        records_file(folder).write_bytes(whole[:cut])
        assert notes(folder.repair()) == [0, 1]
        assert records_file(folder).read_bytes() == whole[:start]
        assert aside(folder).endswith(b"\n" + whole[start:cut] + b"\n")
        assert len(folder.set_aside) == 1
    folder.append(numbered(2))
    assert records_file(folder).read_bytes() == whole


def test_a_whole_last_line_without_its_newline_is_kept_and_the_next_is_not_glued_to_it(
    folder: RunFolder, numbered: Numbered
) -> None:
    whole = fill(folder, numbered)
    records_file(folder).write_bytes(whole[:-1])
    assert notes(folder.repair()) == [0, 1, 2]
    folder.append(numbered(3))
    assert notes(folder.records()) == [0, 1, 2, 3]
    assert not (folder.path / "records.aside").exists()


NEWER = json.dumps({"schema_version": VERSION + 1, "job": {}}).encode()
SPOILT: dict[str, tuple[bytes, bytes]] = {
    "no json": (b"{x}", b"Expecting property name"),
    "a newer schema": (NEWER, f"written by a newer attnbench (schema {VERSION + 1}".encode()),
    "a schema that never was": (b'{"schema_version":0}', b"schema 0 was never written"),
    "no version": (b"{}", b"no schema_version"),
    "a missing field": (b'{"schema_version":1}', b"job: Field required"),
    "zeros": (b"\0" * 40, b"Expecting value"),
    "not utf-8": (b'{"schema_version":1,"note":"\xff"}', b"'utf-8' codec can't decode byte 0xff"),
    "too deep": (b"[" * 100_000, b"nested too deeply"),
    "two glued lines": (b"{}{}", b"Extra data"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_spoilt_line_between_others_is_set_aside_as_it_was_and_with_the_reason(
    folder: RunFolder, numbered: Numbered, kind: str
) -> None:
    line, reason = SPOILT[kind]
    first, second, third = fill(folder, numbered).splitlines(keepends=True)
    records_file(folder).write_bytes(first + line + b"\n" + second + third)
    assert notes(folder.records()) == [0, 1, 2]
    assert line in records_file(folder).read_bytes(), "reading alone changes nothing"
    assert notes(folder.repair()) == [0, 1, 2]
    assert records_file(folder).read_bytes() == first + second + third
    said, kept = aside(folder).split(b"\n", 1)
    assert said.startswith(b"# ")
    assert reason in said
    assert kept == line + b"\n"
    assert len(folder.set_aside) == 1
    assert reason.decode() in folder.set_aside[0]
    assert len(folder.set_aside[0]) < 600


def test_lines_that_were_set_aside_stay_there(folder: RunFolder, numbered: Numbered) -> None:
    fill(folder, numbered)
    for spoilt in (b"first", b"second"):
        with records_file(folder).open("ab") as file:
            file.write(spoilt + b"\n")
        folder.repair()
    assert [line for line in aside(folder).splitlines() if not line.startswith(b"#")] == [b"first", b"second"]
    assert folder.repair()
    assert folder.set_aside == []


def test_empty_lines_are_no_records_and_no_error(folder: RunFolder, numbered: Numbered) -> None:
    records_file(folder).write_bytes(b"\n\n" + fill(folder, numbered).replace(b"\n", b"\n\n") + b"  \n")
    assert notes(folder.repair()) == [0, 1, 2]
    assert not (folder.path / "records.aside").exists()


def test_a_disk_that_fills_in_the_middle_of_a_line_leaves_no_half_line(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fill(folder, numbered)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        with pytest.raises(
            StoreError, match=r"cannot write .*records.jsonl: No space left on device; what was recorded so far is kept"
        ):
            folder.append(numbered(3))
    assert records_file(folder).read_bytes() == whole
    folder.append(numbered(3))
    assert notes(folder.records()) == [0, 1, 2, 3]


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_refuses_leaves_the_file_as_it_was(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    whole = fill(folder, numbered)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(StoreError, match=os.strerror(number)):
            folder.append(numbered(3))
    assert records_file(folder).read_bytes() == whole
    folder.append(numbered(3))
    assert notes(folder.records()) == [0, 1, 2, 3]


def test_a_folder_that_is_gone_is_a_store_error(folder: RunFolder, numbered: Numbered) -> None:
    (folder.path / "run.json").unlink()
    folder.path.rmdir()
    with pytest.raises(StoreError, match="No such file or directory"):
        folder.append(numbered(0))
    with pytest.raises(StoreError, match="is not a run folder"):
        folder.info()


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    """As an editor does it that saves."""
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)


def shortened(file: Path) -> None:
    os.truncate(file, 10)


def lengthened(file: Path) -> None:
    with file.open("a") as more:
        more.write("more\n")


def linked(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


@pytest.mark.parametrize("change", [removed, replaced, shortened, lengthened, linked])
@pytest.mark.parametrize("resumed", [False, True])
def test_records_that_another_program_touched_are_noticed_before_the_next_is_added(
    folder: RunFolder, numbered: Numbered, change: Callable[[Path], None], resumed: bool
) -> None:
    fill(folder, numbered)
    if resumed:
        folder = RunFolder(folder.path)
        folder.repair()
    change(records_file(folder))
    before = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    with pytest.raises(StoreError, match=r"records\.jsonl was removed, replaced or changed by another program"):
        folder.append(numbered(3))
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "call"),
    [("records.jsonl", "records"), ("records.jsonl", "repair"), ("run.json", "info"), ("plan.json", "plan")],
)
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused_and_not_read(folder: RunFolder, name: str, call: str) -> None:
    for place in (lambda file: os.mkfifo(file), lambda file: file.symlink_to("/dev/zero")):
        (folder.path / name).unlink(missing_ok=True)
        place(folder.path / name)
        with pytest.raises(StoreError, match="it is not a regular file"):
            getattr(folder, call)()


def test_nothing_is_added_to_what_a_link_in_the_folder_leads_to(folder: RunFolder, numbered: Numbered, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for name in ("records.jsonl", ".run.json.partial"):
        (folder.path / name).symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match="it is a link, and nothing is written through a link"):
        folder.append(numbered(0))
    folder.rewrite(folder.info())
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_roof_of_nothing_is_no_roof(folder: RunFolder) -> None:
    file = folder.path / "run.json"
    for value in ("0", "-1.0", "NaN", "Infinity"):
        roof = f'"roof": {{"float32": {{"flops_per_second": {value}, "bytes_per_second": 1.0}}}}'
        file.write_text(re.sub(r'"roof": {.*}', roof, file.read_text()))
        with pytest.raises(StoreError, match=r"surroundings\.roof\.float32\.flops_per_second: Input should be"):
            folder.info()


def test_text_that_cannot_be_stored_is_a_store_error_and_leaves_the_file_as_it_was(
    folder: RunFolder, numbered: Numbered
) -> None:
    whole = fill(folder, numbered)
    with pytest.raises(StoreError, match="cannot write"):
        folder.append(numbered(3).model_copy(update={"note": "half a surrogate \ud800"}))
    with pytest.raises(StoreError, match="not JSON compliant"):
        folder.append(numbered(3).model_copy(update={"seconds": float("nan")}))
    assert records_file(folder).read_bytes() == whole


def test_a_record_is_on_the_disk_before_append_returns(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.path.realpath(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", spy)
    folder.append(numbered(0))
    file = records_file(folder)
    assert synced[0] == (str(file), file.stat().st_size)
    assert synced[1][0] == str(folder.path), "a file that is new is on the disk only with its folder"
    synced.clear()
    folder.append(numbered(1))
    assert synced == [(str(file), file.stat().st_size)]


def test_an_interruption_while_a_record_is_written_lets_another_be_appended(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    folder.append(numbered(0))
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        folder.append(numbered(1))
    monkeypatch.undo()
    folder.append(numbered(2))
    assert notes(folder.records()) == [0, 1, 2]


def test_lines_are_in_the_aside_file_before_they_leave_the_records(
    folder: RunFolder, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    whole = fill(folder, numbered) + b"spoilt\n"
    records_file(folder).write_bytes(whole)
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StoreError, match="cannot repair"):
        folder.repair()
    assert b"spoilt" in aside(folder)
    assert records_file(folder).read_bytes() == whole
    monkeypatch.undo()
    assert notes(folder.repair()) == [0, 1, 2]


@pytest.mark.parametrize("call", ["records", "repair"])
def test_records_that_are_no_file_are_a_store_error(folder: RunFolder, call: str) -> None:
    records_file(folder).mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        getattr(folder, call)()
