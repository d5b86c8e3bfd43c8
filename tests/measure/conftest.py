"""What the tests of measuring share: stubs of NVML and of the kernel's files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest


class NVMLError(Exception):
    """As pynvml's own."""


@dataclass
class FakeNvml:
    """pynvml with one device; put `refuses` in the place of a function to make it fail.

    `processes` are (pid, bytes), `power` is (µs, watts), and `violations` the ns for which each policy held the clocks.
    """

    uuid: str = "GPU-1234"
    used: int = 1000
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    reasons: int = 0
    violations: dict[int, int] = field(default_factory=dict)
    open: int = 1
    millijoules: int = 10**9
    power: list[tuple[int, float]] = field(default_factory=list)
    NVMLError: type[Exception] = NVMLError
    NVML_CLOCK_SM: int = 1
    NVML_CLOCK_MEM: int = 2
    NVML_TEMPERATURE_GPU: int = 0
    NVML_TOTAL_POWER_SAMPLES: int = 0

    def refuses(self, *_: object) -> object:
        raise NVMLError("GPU is lost")

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802 - NVML's name
        if uuid != self.uuid:
            raise NVMLError("Not Found")
        return f"handle of {uuid}"

    def nvmlDeviceGetMemoryInfo(self, device: object) -> SimpleNamespace:  # noqa: N802 - NVML's name
        return SimpleNamespace(used=self.used)

    def nvmlDeviceGetComputeRunningProcesses(self, device: object) -> list[SimpleNamespace]:  # noqa: N802 - NVML's name
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes]

    def nvmlDeviceGetTotalEnergyConsumption(self, device: object) -> int:  # noqa: N802 - NVML's name
        return self.millijoules

    def nvmlDeviceGetSamples(self, device: object, kind: int, since: int) -> tuple[int, list[SimpleNamespace]]:  # noqa: N802
        samples = [(time, SimpleNamespace(uiVal=round(1000 * watts))) for time, watts in self.power if time > since]
        return 1, [SimpleNamespace(timeStamp=time, sampleValue=value) for time, value in samples]

    def nvmlDeviceGetClockInfo(self, device: object, kind: int) -> int:  # noqa: N802 - NVML's name
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetCurrentClocksEventReasons(self, device: object) -> int:  # noqa: N802 - NVML's name
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, device: object, policy: int) -> SimpleNamespace:  # noqa: N802 - NVML's name
        return SimpleNamespace(violationTime=self.violations.get(policy, 0))

    def __getattr__(self, name: str) -> Callable[..., object]:
        constants: dict[str, object] = {
            **{"nvmlDeviceGetPowerUsage": 312_500, "nvmlDeviceGetTemperature": 61, "nvmlDeviceGetEccMode": [1, 1]},
            **{"nvmlSystemGetDriverVersion": "580.65", "nvmlDeviceGetEnforcedPowerLimit": 700_000},
            **{"nvmlDeviceGetCount": 1, "nvmlDeviceGetHandleByIndex": 0, "nvmlDeviceGetUUID": self.uuid},
            "nvmlDeviceGetName": "H100",
        }
        if name not in constants:
            raise AttributeError(name)
        return lambda *_: constants[name]


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a file of /proc and /sys/fs/cgroup as host_conditions and devices see them; none exists until it is written."""
    monkeypatch.setattr("attnbench.measure.host_conditions.Path", lambda path: tmp_path / str(path).lstrip("/"))
    monkeypatch.setattr("attnbench.measure.host_conditions._GOVERNOR", tmp_path / "governor")

    def write(path: str, text: str) -> None:
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write
