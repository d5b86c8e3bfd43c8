"""A warm server for all tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attnbench.worker.isolate import Isolation

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture(scope="module")
def warm() -> Iterator[Isolation]:
    """A server that knows the fixture attentions; to start one takes two seconds."""
    with Isolation(packages=PLUGINS) as isolation:
        yield isolation


@pytest.fixture
def warmed(warm: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would start a server asks the one that is warm."""
    monkeypatch.setattr(Isolation, "_request", warm._request)
