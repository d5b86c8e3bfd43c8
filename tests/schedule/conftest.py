"""What the tests of schedules share: nothing is measured here, and nobody waits for a machine that measures."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def lane_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the lane lies in the folder of the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
