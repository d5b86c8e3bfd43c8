"""What pytest-benchmark is told of a test: by its `benchmark` mark, else by the command line."""

from collections.abc import Callable
from typing import Any

import pytest


def option(item: pytest.Item, name: str) -> Any:  # noqa: ANN401 - numbers, texts and functions
    """One of pytest-benchmark's options, as it holds for this test."""
    given = _given(item)
    return given[name] if name in given else item.config.getoption(f"benchmark_{name}")


def host_timer(item: pytest.Item) -> Callable[[], float]:
    """The timer that this test would have without us."""
    timer = option(item, "timer")
    if not callable(timer):
        from pytest_benchmark.utils import load_timer

        timer = load_timer(timer).target
    found: Callable[[], float] = timer
    return found


def with_timer(item: pytest.Item, timer: Callable[[], float]) -> None:
    """Have `benchmark` made with this timer; all else that the mark says stays."""
    item.add_marker(pytest.mark.benchmark(**{**_given(item), "timer": timer}), append=False)


def _given(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker("benchmark")
    return dict(marker.kwargs) if marker else {}
