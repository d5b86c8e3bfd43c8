"""Records on disk: what was reported as written is there, whatever happened to the file since."""

import errno
import gzip
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnbench.schema.record import VERSION, Record
from attnbench.store.run_folder import RunFolder, StoreError
from tests.store.conftest import Numbered, refusing


def notes(records: list[Record]) -> list[int]:
    return [int(record.note) for record in records]


@dataclass
class Kept:
    """A run folder with records that have numbers."""

    folder: RunFolder
    record: Numbered

    def __post_init__(self) -> None:
        self.file, self.aside = self.folder.path / "records.jsonl", self.folder.path / "records.aside"

    def append(self, *numbers: int) -> bytes:
        """Append records; the whole file then."""
        for number in numbers:
            self.folder.append(self.record(number))
        return self.file.read_bytes()


@pytest.fixture
def kept(folder: RunFolder, numbered: Numbered) -> Kept:
    """A folder with three records."""
    kept = Kept(folder, numbered)
    kept.append(0, 1, 2)
    return kept


def test_what_is_appended_is_read_back_in_order_and_reading_makes_no_file(folder: RunFolder, numbered: Numbered) -> None:
    assert folder.records() == folder.repair() == []
    assert {file.name for file in folder.path.iterdir()} == {"run.json"}
    Kept(folder, numbered).append(0, 1, 2)
    assert folder.records() == folder.repair() == [numbered(number) for number in range(3)]
    assert folder.set_aside == []


def pack(file: Path, ending: str) -> Path:
    """What `gzip records.jsonl` does, or an export as Parquet."""
    packed = file.with_suffix(f".{ending}")
    if ending == "parquet":
        from pyarrow import parquet, table

        parquet.write_table(table({"record": file.read_text().splitlines()}), packed, write_page_checksum=True)
    else:
        packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    return packed


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_compressed_records_are_read_and_expanded_before_more_are_added(kept: Kept, ending: str) -> None:
    whole = kept.file.read_bytes()
    packed = pack(kept.file, ending)
    kept.folder = RunFolder(kept.folder.path)
    assert notes(kept.folder.records()) == [0, 1, 2]
    assert packed.exists()
    assert notes(kept.folder.repair()) == [0, 1, 2]
    assert (kept.file.read_bytes(), packed.exists()) == (whole, False)
    kept.append(3)
    assert notes(kept.folder.records()) == [0, 1, 2, 3]


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-9], lambda raw: b"x" + raw, lambda raw: raw[:30] + b"xxxx" + raw[34:]])
@pytest.mark.parametrize("call", ["records", "repair"])
@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_compressed_records_that_are_torn_stay(kept: Kept, call: str, ending: str, spoil: Callable[[bytes], bytes]) -> None:
    packed = pack(kept.file, ending)
    packed.write_bytes(spoil(packed.read_bytes()))
    with pytest.raises(StoreError, match=r"cannot read .*records\."):
        getattr(RunFolder(kept.folder.path), call)()
    assert packed.exists()


def test_a_last_line_torn_at_any_byte_is_set_aside_and_the_rest_is_kept(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kept.file.read_bytes()
    # some dozens of repairs; what they leave in the files is the matter here, not the disk
    monkeypatch.setattr(os, "fsync", id)
    start = whole.rindex(b"\n", 0, -1) + 1
    # no part of a line is JSON: the first and the last bytes, those of letters that have several, and some of the others
    letters = [at for at in range(start, len(whole)) if whole[at] > 127]
    assert len(letters) == 9
    for cut in sorted({start + 1, start + 2, len(whole) - 2, *range(start + 1, len(whole) - 1, 41), *letters}):
        kept.file.write_bytes(whole[:cut])
        assert notes(kept.folder.repair()) == [0, 1]
        assert kept.file.read_bytes() == whole[:start]
        assert kept.aside.read_bytes().endswith(b"\n" + whole[start:cut] + b"\n")
        assert len(kept.folder.set_aside) == 1
    assert kept.append(2) == whole


# the last newline is missing, or there are empty lines
@pytest.mark.parametrize("change", [lambda whole: whole[:-1], lambda whole: b"\n\n" + whole.replace(b"\n", b"\n\n") + b"  \n"])
def test_lines_that_are_whole_are_kept_and_the_next_is_not_glued_to_them(kept: Kept, change: Callable[[bytes], bytes]) -> None:
    kept.file.write_bytes(change(kept.file.read_bytes()))
    assert notes(kept.folder.repair()) == [0, 1, 2]
    kept.append(3)
    assert notes(kept.folder.records()) == [0, 1, 2, 3]
    assert not kept.aside.exists()


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


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_line_between_others_is_set_aside_as_it_was_and_with_the_reason(kept: Kept, name: str) -> None:
    line, reason = SPOILT[name]
    whole, folder = kept.file.read_bytes(), kept.folder
    first, second, third = whole.splitlines(keepends=True)
    kept.file.write_bytes(first + line + b"\n" + second + third)
    assert notes(folder.records()) == [0, 1, 2]
    assert line in kept.file.read_bytes(), "reading alone changes nothing"
    assert notes(folder.repair()) == [0, 1, 2]
    assert kept.file.read_bytes() == whole
    said, stayed = kept.aside.read_bytes().split(b"\n", 1)
    assert said.startswith(b"# ")
    assert reason in said
    assert stayed == line + b"\n"
    (words,) = folder.set_aside
    assert reason.decode() in words
    assert len(words) < 600
    # what was set aside stays there, and so does the next
    kept.file.write_bytes(whole + b"next\n")
    folder.repair()
    assert [each for each in kept.aside.read_bytes().splitlines() if not each.startswith(b"#")] == [line, b"next"]
    assert folder.repair()
    assert folder.set_aside == []


WRITE = os.write
FAULTS: dict[str, tuple[str, Callable[..., int], int]] = {
    "full in the middle": ("write", lambda descriptor, data: WRITE(descriptor, data[:10]), errno.ENOSPC),
    "full": ("write", refusing(errno.ENOSPC), errno.ENOSPC),
    "full once it is synced": ("fsync", refusing(errno.ENOSPC), errno.ENOSPC),
    "broken": ("fsync", refusing(errno.EIO), errno.EIO),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_disk_that_fills_in_the_middle_of_a_line_leaves_no_half_line(kept: Kept, name: str) -> None:
    call, fault, number = FAULTS[name]
    whole, words = kept.file.read_bytes(), os.strerror(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fault)
        with pytest.raises(StoreError, match=rf"cannot write .*records.jsonl: {words}; what was recorded so far is kept"):
            kept.append(3)
    assert kept.file.read_bytes() == whole
    kept.append(3)
    assert notes(kept.folder.records()) == [0, 1, 2, 3]


def test_text_that_cannot_be_stored_and_a_folder_that_is_gone_are_store_errors(kept: Kept) -> None:
    whole, record = kept.file.read_bytes(), kept.record(3)
    with pytest.raises(StoreError, match="cannot write"):
        kept.folder.append(record.model_copy(update={"note": "half a surrogate \ud800"}))
    with pytest.raises(StoreError, match="not JSON compliant"):
        kept.folder.append(record.model_copy(update={"seconds": float("nan")}))
    assert kept.file.read_bytes() == whole
    gone = RunFolder(kept.folder.path / "gone")
    with pytest.raises(StoreError, match="No such file or directory"):
        gone.append(record)
    with pytest.raises(StoreError, match="is not a run folder"):
        gone.info()


CHANGES = {
    "removed": "rm records.jsonl",
    "replaced, as an editor does it that saves": "cp records.jsonl copy && mv copy records.jsonl",
    "shortened": "truncate -s 10 records.jsonl",
    "lengthened": "echo more >> records.jsonl",
    "linked": "mv records.jsonl moved && ln -s moved records.jsonl",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("resumed", [False, True])
def test_records_that_another_program_touched_are_noticed_before_one_is_added(kept: Kept, change: str, resumed: bool) -> None:
    if resumed:
        kept.folder = RunFolder(kept.folder.path)
        kept.folder.repair()
    subprocess.run(change, shell=True, cwd=kept.folder.path, check=True)
    before = {file.name: file.read_bytes() for file in kept.folder.path.iterdir()}
    with pytest.raises(StoreError, match=r"records\.jsonl was removed, replaced or changed by another program"):
        kept.append(3)
    assert {file.name: file.read_bytes() for file in kept.folder.path.iterdir()} == before


@pytest.mark.parametrize("place", [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), Path.mkdir])
@pytest.mark.parametrize("call", ["records", "repair", "info", "plan"])
def test_what_is_no_file_is_refused_and_not_read(folder: RunFolder, call: str, place: Callable[[Path], None]) -> None:
    words = "Is a directory" if place is Path.mkdir else "it is not a regular file"
    file = folder.path / {"info": "run.json", "plan": "plan.json"}.get(call, "records.jsonl")
    file.unlink(missing_ok=True)
    place(file)
    with pytest.raises(StoreError, match=words):
        getattr(folder, call)()


def test_nothing_is_added_to_what_a_link_in_the_folder_leads_to(folder: RunFolder, numbered: Numbered, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for name in ("records.jsonl", ".run.json.partial"):
        (folder.path / name).symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match="it is a link, and nothing is written through a link"):
        folder.append(numbered(0))
    folder.rewrite(folder.info())
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_record_is_on_the_disk_before_append_returns(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.path.realpath(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", spy)
    kept.append(3)
    assert synced == [(str(kept.file), kept.file.stat().st_size)]
    synced.clear()
    kept.file.unlink()
    new = Kept(RunFolder(kept.folder.path), kept.record)
    new.append(0)
    (file, size), (folder, _) = synced
    assert (file, size) == (str(new.file), new.file.stat().st_size)
    assert folder == str(new.folder.path), "a file that is new is on the disk only with its folder"


def test_an_interruption_while_a_record_is_written_lets_another_be_appended(kept: Kept) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kept.append(3)
    kept.append(4)
    assert notes(kept.folder.records()) == [0, 1, 2, 3, 4]


def test_lines_are_in_the_aside_file_before_they_leave_the_records(kept: Kept) -> None:
    whole = kept.file.read_bytes() + b"spoilt\n"
    kept.file.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refusing(errno.EIO))
        with pytest.raises(StoreError, match="cannot repair"):
            kept.folder.repair()
    assert b"spoilt" in kept.aside.read_bytes()
    assert kept.file.read_bytes() == whole
    assert notes(kept.folder.repair()) == [0, 1, 2]
