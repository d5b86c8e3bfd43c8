"""NVML: memory of a device and of this process on it, and its state; every failure is a reason in words.

Devices are matched to torch's by UUID, never by index: CUDA_VISIBLE_DEVICES renumbers torch's only.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from attnbench.measure.reading import Reading

_PERIOD = 0.005


class NvmlUnavailableError(RuntimeError):
    """NVML cannot be used here; the message says why."""


def library() -> Any:  # noqa: ANN401 - a module without types
    """The initialised NVML bindings (package nvidia-ml-py, module pynvml)."""
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailableError(f"nvidia-ml-py is not installed: {error}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML: {error}") from error
    return pynvml


@contextmanager
def session(nvml: Any = None) -> Iterator[Any]:  # noqa: ANN401
    """NVML between init and shutdown."""
    nvml = nvml or library()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def handle(nvml: Any, uuid: str) -> Any:  # noqa: ANN401
    """The device with that UUID, as torch prints it (with or without the prefix `GPU-`)."""
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    try:
        return nvml.nvmlDeviceGetHandleByUUID(name)
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML knows no device {name}: {error}") from error


def process_bytes(nvml: Any, device: Any, pid: int | None = None) -> int | None:  # noqa: ANN401
    """Memory of one process on the device; None where NVML does not tell (WSL, containers, MIG)."""
    pid = pid or os.getpid()
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    except nvml.NVMLError:
        return None
    return next((p.usedGpuMemory for p in running if p.pid == pid and p.usedGpuMemory), None)


def other_processes(nvml: Any, device: Any) -> int:  # noqa: ANN401
    """How many other processes compute on the device."""
    try:
        return sum(p.pid != os.getpid() for p in nvml.nvmlDeviceGetComputeRunningProcesses(device))
    except nvml.NVMLError:
        return 0


@dataclass
class NvmlSampler:
    """Samples this process' and the whole device's memory by a thread while it is open; disturbs timing."""

    nvml: Any
    device: Any
    base_process: int | None = field(init=False)
    base_device: int = field(init=False)
    peak_process: int | None = field(init=False)
    peak_device: int = field(init=False)

    def __enter__(self) -> Self:
        self.base_process = self.peak_process = process_bytes(self.nvml, self.device)
        self.base_device = self.peak_device = self._used()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
        self._sample()  # once more, before anything is freed

    def _used(self) -> int:
        return int(self.nvml.nvmlDeviceGetMemoryInfo(self.device).used)

    def _sample(self) -> None:
        self.peak_device = max(self.peak_device, self._used())
        own = process_bytes(self.nvml, self.device)
        if own is not None:
            self.peak_process = max(self.peak_process or 0, own)

    def _watch(self) -> None:
        while not self._done.wait(_PERIOD):
            self._sample()

    def readings(self) -> dict[str, Reading]:
        """Counters by name; call it after the block has closed."""
        source = "NVML, own process, sampled every 5 ms"
        reason = None if self.peak_process else "NVML does not show this process' memory (container, WSL or MIG)"
        # the device's delta sees every process: it is the fall-back, and flagged where it is needed
        delta = Reading(
            self.peak_device - self.base_device,
            "NVML, whole device, less the baseline",
            "sees other processes too",
            flag=None if self.peak_process else "device_delta",
        )
        return {
            "nvml_process_peak": Reading(self.peak_process, source, reason),
            "nvml_process_base": Reading(self.base_process, "NVML, own process, before the call", reason),
            "nvml_device_delta": delta,
        }


def unavailable(reason: str) -> dict[str, Reading]:
    """All NVML counters as not read, with the reason."""
    return {name: Reading(None, "NVML", reason) for name in ("nvml_process_peak", "nvml_process_base", "nvml_device_delta")}
