"""run.json and plan.json: made, found, replaced as a whole, and where they cannot be, that is said; names are never paths."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema.cell import Cell
from attnbench.schema.problem import Problem
from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.run_folder import RunFolder, StoreError, safe_name

PLAN = Selfcheck(sides=(Cell(method="m", problem=Problem(N=8)),) * 2, verdicts=7)


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
    ("name", "content", "why"),
    [
        ("run.json", b"", "EOF"),
        ("run.json", b"{", "EOF"),
        ("run.json", b"\xff", "utf-8"),
        ("run.json", b"[]", "valid dictionary|object"),
        ("run.json", b"{}", "id: Field required"),
        ("run.json", b'{"schema_version":%d}' % (RUN_VERSION + 1), "written by another attnbench"),
        ("plan.json", b"{", "EOF"),
        ("plan.json", b"{}", "sides: Field required"),
        ("plan.json", b"\xff", "utf-8"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(folder: RunFolder, name: str, content: bytes, why: str) -> None:
    (folder.path / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{name} cannot be read: .*({why})"):
        folder.info() if name == "run.json" else folder.plan()


def test_a_plan_is_found_again_in_its_folder_and_a_folder_without_one_is_none_of_a_selfcheck(folder: RunFolder) -> None:
    with pytest.raises(StoreError, match="is not the folder of a selfcheck"):
        folder.plan()
    folder.keep_plan(PLAN)
    assert folder.plan() == PLAN


def test_a_plan_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*plan.json"):
        RunFolder(tmp_path / "nowhere").keep_plan(PLAN)


HOSTILE = [
    *("", ".", "..", "../../x", "/etc/passwd", "a/b", "a\\b", "\0", "a\nb"),
    *("x" * 5000, "é" * 5000, "~", "-rf", "con:", "\ud800"),
]


@given(st.text() | st.sampled_from(HOSTILE) | st.lists(st.sampled_from(["..", "/", ".", "x", "\0"])).map("".join))
def test_any_name_becomes_one_plain_part_of_a_path(name: str) -> None:
    safe = safe_name(name)
    assert Path("/a", safe).parent == Path("/a")
    assert Path("/a", safe).resolve().parent == Path("/a")
    assert 1 <= len(safe) <= 80
    assert safe.isascii()
    assert not safe.startswith(".")


@pytest.mark.parametrize("name", [name.replace("\ud800", "?") for name in HOSTILE], ids=range(len(HOSTILE)))
def test_a_run_of_any_name_stays_in_the_folder_of_its_suite(tmp_path: Path, run_info: RunInfo, name: str) -> None:
    folder = RunFolder.create(tmp_path / "results", run_info.model_copy(update={"id": name}))
    assert folder.path.resolve().parent == tmp_path / "results" / "s"
    assert folder.info().id == name


def test_a_plain_name_stays_as_it_is() -> None:
    assert safe_name("20260102-030405-abcdef") == "20260102-030405-abcdef"
