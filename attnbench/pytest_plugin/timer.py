"""The timer that pytest-benchmark reads, before and after each round."""

from collections.abc import Callable
from dataclasses import dataclass


def _at_once() -> None:
    """A CPU has nothing to wait for."""


@dataclass(eq=False)
class Timer:
    """Host seconds, read once the device is idle; or, where `device_seconds` is set, what a clock of the device has counted.

    A benchmark is made before its test can say what it measures, and pytest-benchmark keeps timers for good: so it is told
    afterwards which it is, and holds nothing large.
    """

    host: Callable[[], float]
    wait: Callable[[], object] = _at_once
    device_seconds: float | None = None
    label: str = "wall"

    def __call__(self) -> float:
        """Seconds."""
        if self.device_seconds is not None:
            return self.device_seconds
        self.wait()
        return self.host()

    def __repr__(self) -> str:
        return self.label
