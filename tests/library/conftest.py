"""A warm server for all tests of a file."""

from pathlib import Path

import pytest

from attnbench.worker.isolate import Isolation
from tests.cli.conftest import with_high_roofs

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores"


@pytest.fixture
def warmed(warm: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would start a server asks the one that is warm."""
    monkeypatch.setattr(Isolation, "_request", warm._request)


@pytest.fixture
def roofed(warmed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As `warmed`, and roofs are not measured."""
    with_high_roofs(monkeypatch, tmp_path)
