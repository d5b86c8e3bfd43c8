"""Names come from users and are data, never paths."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder, safe_name

HOSTILE = [
    "",
    ".",
    "..",
    "../../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "\0",
    "a\nb",
    "x" * 5000,
    "é" * 5000,
    "~",
    "-rf",
    "con:",
    "\ud800",
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
