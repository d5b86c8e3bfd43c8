"""run.json: made, found, replaced as a whole, and where it cannot be, that is said."""

import errno
import os
from pathlib import Path

import pytest

from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.store.run_folder import RunFolder, StoreError


def test_run_json_is_replaced_as_a_whole_or_not_at_all(
    folder: RunFolder, run_info: RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    other = run_info.model_copy(update={"command": "x" * 10_000})
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(StoreError, match=r"cannot write .*run.json: Input/output error"):
            folder.rewrite(other)
    assert folder.info() == run_info
    folder.rewrite(other)
    assert folder.info() == other
    assert {file.name for file in folder.path.iterdir()} == {"run.json"}


def test_a_place_that_cannot_be_written_is_a_store_error(tmp_path: Path, run_info: RunInfo) -> None:
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"cannot create .*results/s/i: Not a directory"):
        RunFolder.create(tmp_path / "results", run_info)


def test_two_runs_of_one_name_are_kept_apart(folder: RunFolder, run_info: RunInfo, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="File exists"):
        RunFolder.create(tmp_path / "results", run_info)
    assert folder.info() == run_info


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"\xff", "utf-8"),
        (b"[]", "valid dictionary|object"),
        (b"{}", "id: Field required"),
        (b'{"schema_version":%d}' % (RUN_VERSION + 1), "written by another attnbench"),
    ],
)
def test_a_run_json_that_cannot_be_read_says_why(folder: RunFolder, content: bytes, why: str) -> None:
    (folder.path / "run.json").write_bytes(content)
    with pytest.raises(StoreError, match=f"run.json cannot be read: .*({why})"):
        folder.info()
