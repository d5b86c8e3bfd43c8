"""run.json and plan.json: made, found, replaced as a whole, and where they cannot be, that is said; names are never paths."""

import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema.cell import Cell
from attnbench.schema.problem import Problem
from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.run_folder import RunFolder, StoreError, safe_name
from tests.store.conftest import refusing


def test_run_json_is_replaced_as_a_whole_or_not_at_all(folder: RunFolder, run_info: RunInfo) -> None:
    other = run_info.model_copy(update={"command": "x" * 10_000})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refusing(errno.EIO))
        with pytest.raises(StoreError, match=r"cannot write .*run.json: Input/output error"):
            folder.rewrite(other)
    assert folder.info() == run_info
    folder.rewrite(other)
    assert folder.info() == other
    assert {file.name for file in folder.path.iterdir()} == {"run.json"}


def test_a_place_that_cannot_be_written_is_a_store_error(folder: RunFolder, tmp_path: Path, run_info: RunInfo) -> None:
    with pytest.raises(StoreError, match="File exists"):
        RunFolder.create(tmp_path / "results", run_info.model_copy(update={"command": "another run of this name"}))
    assert folder.info() == run_info
    (tmp_path / "other").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"cannot create .*other/s/i: Not a directory"):
        RunFolder.create(tmp_path / "other", run_info)


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


@pytest.mark.parametrize("value", ["0", "-1.0", "NaN", "Infinity"])
def test_a_roof_of_nothing_is_no_roof(folder: RunFolder, value: str) -> None:
    file = folder.path / "run.json"
    roof = f'"roof": {{"float32": {{"flops_per_second": {value}, "bytes_per_second": 1.0}}}}'
    file.write_text(re.sub(r'"roof": {.*}', roof, file.read_text()))
    with pytest.raises(StoreError, match=r"surroundings\.roof\.float32\.flops_per_second: Input should be"):
        folder.info()


def test_a_plan_is_found_again_in_its_folder_and_a_folder_without_one_is_none_of_a_selfcheck(folder: RunFolder) -> None:
    plan = Selfcheck(sides=(Cell(method="m", problem=Problem(N=8)),) * 2, verdicts=7)
    with pytest.raises(StoreError, match="is not the folder of a selfcheck"):
        folder.plan()
    folder.keep_plan(plan)
    assert folder.plan() == plan
    with pytest.raises(StoreError, match=r"cannot write .*plan.json"):
        RunFolder(folder.path / "nowhere").keep_plan(plan)


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
    assert safe_name("20260102-030405-abcdef") == "20260102-030405-abcdef", "a plain name stays as it is"


@pytest.mark.parametrize("name", [name.replace("\ud800", "?") for name in HOSTILE], ids=range(len(HOSTILE)))
def test_a_run_of_any_name_stays_in_the_folder_of_its_suite(tmp_path: Path, run_info: RunInfo, name: str) -> None:
    folder = RunFolder.create(tmp_path / "results", run_info.model_copy(update={"id": name}))
    assert folder.path.resolve().parent == tmp_path / "results" / "s"
    assert folder.info().id == name
