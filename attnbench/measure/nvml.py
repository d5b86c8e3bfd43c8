"""NVML: memory of a device and of this process on it, and its state; every failure is a reason in words.

Devices are matched to torch's by UUID, never by index: CUDA_VISIBLE_DEVICES renumbers torch's only.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        with suppress(nvml.NVMLError):
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
    used = (p.usedGpuMemory for p in _running(nvml, device) or () if p.pid == pid)
    return next((int(found) for found in used if found), None)


def other_processes(nvml: Any, device: Any, *, present: bool = True) -> int | None:  # noqa: ANN401
    """How many others compute on the device, where this process does too (`present`); None where NVML does not tell."""
    running = _running(nvml, device)
    if running is None:
        return None
    others: int = sum(p.pid != os.getpid() for p in running)
    # in a container NVML gives the host's numbers: where none is ours, one of them is this process
    return max(0, others - 1) if present and others == len(running) else others


def _running(nvml: Any, device: Any) -> Any:  # noqa: ANN401
    try:
        return nvml.nvmlDeviceGetComputeRunningProcesses(device)
    except (nvml.NVMLError, AttributeError):
        return None


@dataclass
class NvmlSampler:
    """Samples this process' and the whole device's memory by a thread while it is open; disturbs timing.

    Raises NvmlUnavailableError on opening; a device that is lost later is told by the readings.
    """

    nvml: Any
    device: Any
    base_process: int | None = field(init=False)
    base_device: int = field(init=False)
    peak_process: int | None = field(init=False)
    peak_device: int = field(init=False)
    lost: str | None = field(init=False, default=None)

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
        try:
            return int(self.nvml.nvmlDeviceGetMemoryInfo(self.device).used)
        except self.nvml.NVMLError as error:
            raise NvmlUnavailableError(f"NVML: {error}") from error

    def _sample(self) -> None:
        try:
            self.peak_device = max(self.peak_device, self._used())
        except NvmlUnavailableError as error:
            self.lost = str(error)
        own = process_bytes(self.nvml, self.device)
        if own is not None:
            self.peak_process = max(self.peak_process or 0, own)

    def _watch(self) -> None:
        while not self._done.wait(_PERIOD):
            self._sample()

    def readings(self) -> dict[str, Reading]:
        """Counters by name; call it after the block has closed."""
        if self.lost:
            return unavailable(self.lost)
        # the device's delta sees every process: it is the fall-back, and flagged where it is needed
        delta = Reading(
            self.peak_device - self.base_device,
            "NVML, whole device, less the baseline",
            "sees other processes too",
            flag=None if self.peak_process else "device_delta",
        )
        return {
            "nvml_process_peak": _own(self.peak_process, "NVML, own process, sampled every 5 ms"),
            "nvml_process_base": _own(self.base_process, "NVML, own process, before the call"),
            "nvml_device_delta": delta,
        }


def _own(found: int | None, source: str) -> Reading:
    hidden = "NVML does not show this process' memory (container, WSL or MIG)"
    return Reading(found, source, None if found else hidden)


def unavailable(reason: str) -> dict[str, Reading]:
    """All NVML counters as not read, with the reason."""
    return {name: Reading(None, "NVML", reason) for name in ("nvml_process_peak", "nvml_process_base", "nvml_device_delta")}
