"""What tests of every room share: the fixture plugins, reachable by name, also in child processes."""

import os
from pathlib import Path

import pytest

# two threads on a busy machine wait for each other at every operator; torch reads it when it is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of fixture attentions on the path, and caches of its own for the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTNBENCH_TEST_MARKS", str(tmp_path / "marks"))
    monkeypatch.syspath_prepend(str(PLUGINS))
    return PLUGINS
