"""What the tests of executors share: nothing is measured here, and nobody waits for a machine that measures."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def lane_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the lane lies in the folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
