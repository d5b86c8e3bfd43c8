"""What the tests of the workloads share: fixture attentions by name, and torch's global state put back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch


@pytest.fixture(autouse=True)
def attentions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fixture attentions on the path; a workload sets torch's modes for its whole process, here for one test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attentions"))
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)


class NVMLError(Exception):
    """As pynvml's own."""


@dataclass
class FakeNvml:
    """pynvml with one device, and processes on it by id."""

    processes: list[int] = field(default_factory=list)
    used: int = 1000
    lost: bool = False
    millijoules: int = 10**9
    NVMLError: type[Exception] = NVMLError
    NVML_CLOCK_SM: int = 1
    NVML_CLOCK_MEM: int = 2
    NVML_TEMPERATURE_GPU: int = 0

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        return

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802 - NVML's name
        if uuid != "GPU-1234":
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetMemoryInfo(self, device: str) -> SimpleNamespace:  # noqa: N802 - NVML's name
        if self.lost:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(used=self.used)

    def nvmlDeviceGetTotalEnergyConsumption(self, device: str) -> int:  # noqa: N802 - NVML's name
        return self.millijoules

    def nvmlDeviceGetComputeRunningProcesses(self, device: str) -> list[SimpleNamespace]:  # noqa: N802 - NVML's name
        return [SimpleNamespace(pid=pid, usedGpuMemory=500) for pid in self.processes]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVML that knows the one GPU which torch is made to tell of."""
    made = FakeNvml()
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: made)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    return made
