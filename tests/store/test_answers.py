"""What a method said of itself is kept until anything that the answer came from has changed."""

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attnbench.schema.errand import Description
from attnbench.store import answers

ENTRY = EntryPoint(name="mine.one", value="asked_package.family.one:One", group="attnbench.impls")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "asked_package" / "family"
    folder.mkdir(parents=True)
    for file in (folder.parent / "__init__.py", folder / "__init__.py", folder / "one.py", folder / "shared.py"):
        file.write_text('"""."""\n')
    return folder


def description() -> Description:
    return Description(
        method="mine.one", paper="", tier="eager", causality="full", summary="", version="1", parameters=("a",), missing=()
    )


def test_an_answer_is_recalled(package: Path) -> None:
    assert answers.recall(ENTRY) is None
    answers.remember(ENTRY, description())
    assert answers.recall(ENTRY) == description()


@pytest.mark.parametrize("changed", ["one.py", "shared.py", "../__init__.py"])
def test_it_is_forgotten_when_any_file_of_the_package_changes(package: Path, changed: str) -> None:
    answers.remember(ENTRY, description())
    # another process asks later: what was found in this one is found anew
    answers._newest.cache_clear()
    later = (package / "one.py").stat().st_mtime + 10**9
    os.utime(package / changed, (later, later))
    assert answers.recall(ENTRY) is None
