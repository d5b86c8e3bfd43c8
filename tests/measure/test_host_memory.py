"""Peaks of resident memory: known patterns in processes of their own, and the fall-back where the kernel refuses."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnbench.measure import host_memory

Patterns = Callable[[str], dict[str, dict[str, Any]]]


def test_the_peak_of_a_known_pattern_is_within_one_percent(patterns: Patterns, pattern: str) -> None:
    found = patterns("system")[pattern]
    if found["rss_flag"] == "sampled":
        pytest.skip("the high-water mark cannot be reset here")
    assert found["rss"] == pytest.approx(found["expected"], rel=0.01)


@dataclass
class FakeProcess:
    """A process whose memory is what the test says; tells when the sampling thread has seen it."""

    rss: int = 100
    seen: threading.Event = field(default_factory=threading.Event)

    def memory_info(self) -> SimpleNamespace:
        if threading.current_thread() is not threading.main_thread() and self.rss > 100:
            self.seen.set()
        return SimpleNamespace(rss=self.rss)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeProcess:
    """A process in a sandbox that refuses to reset the high-water mark."""
    made = FakeProcess()
    monkeypatch.setattr(host_memory, "_CLEAR", tmp_path / "not" / "there")
    monkeypatch.setattr("psutil.Process", lambda: made)
    return made


def test_where_the_mark_cannot_be_reset_memory_is_sampled_and_flagged_with_the_reason(process: FakeProcess) -> None:
    def call() -> None:
        process.rss = 900
        assert process.seen.wait(10)
        process.rss = 150

    reading = host_memory.host_rss_peak(call)
    assert (reading.bytes, reading.flag) == (800, "sampled")
    assert reading.reason is not None
    assert "No such file" in reading.reason
    assert "sampled every 2 ms" in reading.reason


def test_memory_that_is_still_held_at_the_end_is_seen_without_the_thread(process: FakeProcess) -> None:
    reading = host_memory.host_rss_peak(lambda: setattr(process, "rss", 700))
    assert reading.bytes == 600


def test_sampling_ends_with_the_call_also_when_it_raises(process: FakeProcess) -> None:
    threads = threading.active_count()

    def call() -> None:
        raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        host_memory.host_rss_peak(call)
    assert threading.active_count() == threads


def test_the_heap_is_trimmed_before_the_mark_is_reset_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clear, status, log = tmp_path / "clear_refs", tmp_path / "status", list[str]()
    monkeypatch.setattr(host_memory, "_CLEAR", clear)
    monkeypatch.setattr(host_memory, "_STATUS", status)
    monkeypatch.setattr(host_memory, "trim", lambda: log.append("trim" if not clear.exists() else "too late"))
    status.write_text("VmHWM:\t   500 kB\nVmRSS:\t   200 kB\n")

    def call() -> None:
        log.append(f"call after {clear.read_text()!r}")
        status.write_text("VmHWM:\t   1200 kB\nVmRSS:\t   300 kB\n")

    assert host_memory.host_rss_peak(call).bytes == 1000 * 1024
    assert log == ["trim", "call after '5'"]
