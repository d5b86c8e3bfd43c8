"""What tests of every room share: the fixture plugins, reachable by name, also in child processes."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# two threads on a busy machine wait for each other at every operator; torch reads it when it is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_stays() -> None:
    """A collection of garbage, as before each measurement, walks neither ten thousand tests nor all of torch."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of fixture attentions on the path, and caches of its own for the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTNBENCH_TEST_MARKS", str(tmp_path / "marks"))
    monkeypatch.syspath_prepend(str(PLUGINS))
    return PLUGINS


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One for all tests; as root it has no sandbox."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield launched
        launched.close()
