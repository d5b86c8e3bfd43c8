"""The things that the plugin shares with pytest and pytest-benchmark: the session, the timer and the options of a test.

pytest imports this at every start, so it imports no torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from attnbench.schema.outcome import Outcome


@dataclass
class Session:
    """The results of checks, which are made once a session, and what was not timed, with the reasons."""

    checks: "dict[tuple[object, str], Outcome]" = field(default_factory=dict)
    """The outcomes, by the method and the key of the small cell on which it was checked."""
    left_out: list[dict[str, str]] = field(default_factory=list)


SESSION = pytest.StashKey[Session]()


@dataclass(eq=False)
class Timer:
    """The timer that pytest-benchmark reads: host seconds once the device is idle, or `device_seconds` where they are set.

    A benchmark is made before its test can say what it measures, and pytest-benchmark keeps timers for good: so the timer is
    set up afterwards, and holds nothing large.
    """

    host: Callable[[], float]
    wait: Callable[[], object] | None = None
    """Is called before the host's clock is read; a CPU has nothing to wait for."""
    device_seconds: float | None = None
    label: str = "wall"

    def __call__(self) -> float:
        """Return the seconds."""
        if self.device_seconds is not None:
            return self.device_seconds
        if self.wait is not None:
            self.wait()
        return self.host()

    def __repr__(self) -> str:
        return self.label


def option(item: pytest.Item, name: str) -> Any:  # noqa: ANN401 - numbers, texts and functions
    """Return one of pytest-benchmark's options for a test: from its `benchmark` mark, or else from the command line."""
    given = marked(item)
    return given[name] if name in given else item.config.getoption(f"benchmark_{name}")


def marked(item: pytest.Item) -> dict[str, Any]:
    """Return what the `benchmark` mark of a test says."""
    marker = item.get_closest_marker("benchmark")
    return dict(marker.kwargs) if marker else {}
