"""Peaks of torch's CUDA allocator, on a stub of it and on a real GPU."""

from dataclasses import dataclass, field

import pytest
import torch

from attnbench.measure.cuda_memory import allocator_peaks, saved_for_backward

MIB = 2**20


@dataclass
class Allocator:
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
    cuda = Allocator()
    cuda.take(900)
    cuda.take(-600)  # an earlier peak, gone

    def call() -> None:
        cuda.log.append("call")
        cuda.take(180, rounding=20)
        cuda.take(-150)

    readings = allocator_peaks(call, "cuda:0", cuda)
    peaks = {"torch_allocated_peak": 200, "torch_requested_peak": 180, "torch_reserved_peak": 900}
    assert {name: reading.bytes for name, reading in readings.items()} == peaks
    assert not any(reading.flag or reading.reason for reading in readings.values())
    assert cuda.log == ["synchronize", "call", "synchronize"]


def test_a_call_in_which_the_allocator_had_to_try_again_is_flagged() -> None:
    cuda = Allocator(retries=3)
    readings = allocator_peaks(lambda: setattr(cuda, "retries", 4), "cuda:0", cuda)
    assert readings["torch_reserved_peak"].flag == "allocation_retried"
    assert allocator_peaks(lambda: None, "cuda:0", cuda)["torch_reserved_peak"].flag is None


def test_what_is_kept_for_the_backward_leaves_out_the_output() -> None:
    cuda = Allocator(allocated=5000)

    def forward() -> torch.Tensor:
        output = torch.ones(100)
        cuda.take(output.nbytes + 300)
        return output

    assert saved_for_backward(forward, "cuda:0", cuda).bytes == 300


@pytest.mark.cuda
def test_a_known_allocation_on_a_gpu_is_within_one_percent() -> None:
    torch.ones(1, device="cuda:0")
    readings = allocator_peaks(lambda: torch.ones(64 * MIB, device="cuda:0"), "cuda:0")
    assert readings["torch_allocated_peak"].bytes == pytest.approx(256 * MIB, rel=0.01)
    assert (readings["torch_reserved_peak"].bytes or 0) >= 256 * MIB


@pytest.mark.cuda
def test_what_exp_keeps_on_a_gpu_is_its_output_alone() -> None:
    x, y = (torch.ones(MIB, device="cuda:0", requires_grad=True) for _ in "xy")
    assert saved_for_backward(x.exp, "cuda:0").bytes == 0
    assert saved_for_backward(lambda: x.exp() * y.tanh(), "cuda:0").bytes == pytest.approx(8 * MIB, rel=0.01)
