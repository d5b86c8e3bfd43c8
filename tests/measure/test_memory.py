"""Peaks of memory, on the host and on a GPU: known patterns, what a backward keeps, and where counters are refused."""

import ctypes
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.measure import allocator, cuda_memory, host_memory
from attnbench.measure.profiler_memory import saved_for_backward, torch_profiler_peak

MIB = 2**20
FREED = 320 * MIB
N = 2**18
BYTES = 4 * N


@cache
def patterns(policy: str, *names: str) -> dict[str, dict[str, Any]]:
    """By name: what the counters said of known patterns under an allocator policy; of all where none is named."""
    script = [sys.executable, str(Path(__file__).parent / "memory_patterns.py"), policy, *names]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    if "no mallopt here" in done.stderr:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row.pop("pattern"): row for row in rows}


def test_the_peak_of_each_known_pattern_is_within_one_percent_by_both_counters() -> None:
    found = {name: row for name, row in patterns("system").items() if "expected" in row}
    expected = {name: pytest.approx(row["expected"], rel=0.01) for name, row in found.items()}
    assert len(expected) == 5
    assert {name: row["profiler"] for name, row in found.items()} == expected
    if any(row["rss_flag"] == "sampled" for row in found.values()):
        pytest.skip("the high-water mark cannot be reset here")
    assert {name: row["rss"] for name, row in found.items()} == expected


def test_a_freed_block_stays_resident_only_where_memory_is_retained_and_until_a_trim_and_changes_no_peak() -> None:
    assert patterns("system")["a freed block"]["kept"] < 0.1 * FREED
    retained = patterns("retain", "a freed block", "forward and backward")
    assert retained["a freed block"]["kept"] > 0.95 * FREED
    assert retained["a freed block"]["after_trim"] < 0.1 * FREED
    found = retained["forward and backward"]
    assert found["profiler"] == pytest.approx(found["expected"], rel=0.01)


@pytest.mark.parametrize("library", [{}, {"mallopt": lambda option, value: 0}], ids=["without the functions", "that refuses"])
def test_a_c_library_that_cannot_retain_is_told_by_false(monkeypatch: pytest.MonkeyPatch, library: dict[str, Any]) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(**library))
    assert not allocator.retain()
    assert not allocator.trim()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """In a sandbox that refuses to reset the high-water mark: a process whose memory the test says, until it is sampled."""
    made = SimpleNamespace(rss=100, seen=threading.Event())

    def memory_info() -> SimpleNamespace:
        if threading.current_thread() is not threading.main_thread() and made.rss > 100:
            made.seen.set()
        return SimpleNamespace(rss=made.rss)

    monkeypatch.setattr(host_memory, "_CLEAR", tmp_path / "not" / "there")
    monkeypatch.setattr("psutil.Process", lambda: SimpleNamespace(memory_info=memory_info))
    return made


def test_where_the_mark_cannot_be_reset_memory_is_sampled_and_flagged_with_the_reason(process: SimpleNamespace) -> None:
    def call() -> None:
        process.rss = 900
        assert process.seen.wait(10)
        process.rss = 150

    reading = host_memory.host_rss_peak(call)
    assert (reading.bytes, reading.flag) == (800, "sampled")
    assert "No such file" in (reading.reason or "")
    assert "sampled every 2 ms" in (reading.reason or "")


def test_memory_that_is_still_held_at_the_end_is_seen_without_the_thread(process: SimpleNamespace) -> None:
    assert host_memory.host_rss_peak(lambda: setattr(process, "rss", 700)).bytes == 600


def test_sampling_ends_with_the_call_also_when_it_raises(process: SimpleNamespace) -> None:
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


def test_the_profiler_counts_neither_what_was_freed_before_the_peak_nor_what_lived_before_the_call() -> None:
    x = torch.ones(8 * N)

    def call() -> None:
        torch.ones(N)
        torch.ones(N)
        x.add_(1)

    assert torch_profiler_peak(call).bytes == pytest.approx(BYTES, abs=64)


@pytest.mark.parametrize(
    ("forward", "tensors_kept"),
    [
        # exp keeps its own output, which is not counted where it is the result
        (lambda x, y: x.exp(), 0),
        # a product keeps its two factors: leaves that lived before
        (lambda x, y: x * y, 0),
        (lambda x, y: x.exp() * y, 1),
        (lambda x, y: x.exp() * y.tanh(), 2),
        (lambda x, y: (x.exp() * y).tanh(), 1),
        # the sum keeps nothing: its input goes
        (lambda x, y: (x + y) + y, 0),
    ],
    ids=["exp", "mul of leaves", "exp, mul", "exp, tanh, mul", "exp, mul, tanh", "add, add"],
)
def test_what_is_kept_for_a_backward_is_known_by_hand(forward: Callable[[Tensor, Tensor], Tensor], tensors_kept: int) -> None:
    x, y = (torch.ones(N, requires_grad=True) for _ in range(2))
    assert saved_for_backward(lambda: forward(x, y)).bytes == pytest.approx(tensors_kept * BYTES, abs=64)
    with torch.no_grad():
        assert saved_for_backward(lambda: forward(x, y)).bytes == 0


@dataclass
class Gpu:
    """torch.cuda's counters; `log` is the order in which they were asked."""

    allocated: int = 0
    requested: int = 0
    peak: int = 0
    requested_peak: int = 0
    reserved: int = 0
    retries: int = 0
    log: list[str] = field(default_factory=list)

    def take(self, size: int, rounding: int = 0) -> None:
        self.requested += size
        self.allocated += size + rounding
        self.peak, self.requested_peak = max(self.peak, self.allocated), max(self.requested_peak, self.requested)
        self.reserved = max(self.reserved, self.allocated)

    def synchronize(self, device: str) -> None:
        self.log.append("synchronize")

    def reset_peak_memory_stats(self, device: str) -> None:
        self.peak, self.requested_peak = self.allocated, self.requested

    def memory_allocated(self, device: str) -> int:
        return self.allocated

    def memory_stats(self, device: str) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.peak,
            "requested_bytes.all.current": self.requested,
            "requested_bytes.all.peak": self.requested_peak,
            "reserved_bytes.all.peak": self.reserved,
            "num_alloc_retries": self.retries,
        }


def test_the_peak_is_counted_beyond_what_lived_before_after_an_earlier_peak_and_between_idle_moments() -> None:
    cuda = Gpu()
    cuda.take(900)
    cuda.take(-600)  # an earlier peak, gone

    def call() -> None:
        cuda.log.append("call")
        cuda.take(180, rounding=20)
        cuda.take(-150)

    readings = cuda_memory.allocator_peaks(call, "cuda:0", cuda)
    peaks = {"torch_allocated_peak": 200, "torch_requested_peak": 180, "torch_reserved_peak": 900}
    assert {name: reading.bytes for name, reading in readings.items()} == peaks
    assert not any(reading.flag or reading.reason for reading in readings.values())
    assert cuda.log == ["synchronize", "call", "synchronize"]


def test_a_call_in_which_the_allocator_had_to_try_again_is_flagged() -> None:
    cuda = Gpu(retries=3)
    readings = cuda_memory.allocator_peaks(lambda: setattr(cuda, "retries", 4), "cuda:0", cuda)
    assert readings["torch_reserved_peak"].flag == "allocation_retried"
    assert cuda_memory.allocator_peaks(lambda: None, "cuda:0", cuda)["torch_reserved_peak"].flag is None


def test_what_an_allocator_does_not_count_is_no_number() -> None:
    cuda = Gpu()
    # of what was asked for cudaMallocAsync tells 0
    readings = cuda_memory.allocator_peaks(lambda: cuda.take(0, rounding=200), "cuda:0", cuda)
    assert (readings["torch_allocated_peak"].bytes, readings["torch_requested_peak"].bytes) == (200, None)
    assert "cudaMallocAsync" in str(readings["torch_requested_peak"].reason)


def test_what_is_kept_for_the_backward_leaves_out_the_output() -> None:
    cuda = Gpu(allocated=5000)

    def forward() -> torch.Tensor:
        output = torch.ones(100)
        cuda.take(output.nbytes + 300)
        return output

    assert cuda_memory.saved_for_backward(forward, "cuda:0", cuda).bytes == 300


@pytest.mark.cuda
def test_a_known_allocation_on_a_gpu_is_within_one_percent() -> None:
    torch.ones(1, device="cuda:0")
    readings = cuda_memory.allocator_peaks(lambda: torch.ones(64 * MIB, device="cuda:0"), "cuda:0")
    assert readings["torch_allocated_peak"].bytes == pytest.approx(256 * MIB, rel=0.01)
    assert (readings["torch_reserved_peak"].bytes or 0) >= 256 * MIB


@pytest.mark.cuda
def test_what_exp_keeps_on_a_gpu_is_its_output_alone() -> None:
    x, y = (torch.ones(MIB, device="cuda:0", requires_grad=True) for _ in "xy")
    assert cuda_memory.saved_for_backward(x.exp, "cuda:0").bytes == 0
    assert cuda_memory.saved_for_backward(lambda: x.exp() * y.tanh(), "cuda:0").bytes == pytest.approx(8 * MIB, rel=0.01)


@pytest.mark.cuda
def test_more_memory_than_the_gpu_has_is_an_out_of_memory_error() -> None:
    _, total = torch.cuda.mem_get_info("cuda:0")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2 * total, dtype=torch.uint8, device="cuda:0")
