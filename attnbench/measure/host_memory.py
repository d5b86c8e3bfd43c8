"""Memory counters, and the first of them: peak resident memory over one call, by the kernel's own high-water mark."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from attnbench.measure.allocator import trim

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_SOURCE = "VmHWM of /proc/self/status after a reset, less VmRSS before"


@dataclass(frozen=True)
class Reading:
    """One memory counter; `bytes` is None, never 0, where it could not be read, and `reason` says why."""

    bytes: int | None
    source: str
    reason: str | None = None
    flag: str | None = None


def host_rss_peak(call: Callable[[], object]) -> Reading:
    """Measure the bytes that the call touched beyond what was resident before; pages it never touched do not count.

    The heap is trimmed first, because allocations that reuse its pages would not be seen. Where the high-water mark
    cannot be reset, a thread samples instead, which misses short peaks, and the reading is flagged.
    """
    trim()
    try:
        _CLEAR.write_text("5")
    except OSError as error:
        return _sampled(call, f"no reset of the high-water mark here ({error.strerror}): sampled every 2 ms")
    before = _field("VmRSS")
    call()
    return Reading(max(0, _field("VmHWM") - before), _SOURCE)


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in {_STATUS}")


def _sampled(call: Callable[[], object], reason: str) -> Reading:
    process = psutil.Process()
    before = peak = process.memory_info().rss

    def look() -> None:
        nonlocal peak
        peak = max(peak, process.memory_info().rss)

    with looking(look, 0.002):
        call()
    return Reading(peak - before, "resident memory sampled by psutil", reason, flag="sampled")


@contextmanager
def looking(look: Callable[[], object], period: float) -> Iterator[None]:
    """Look again and again in a thread while a block runs, and once more at its end, before anything is freed."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(period):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        look()
