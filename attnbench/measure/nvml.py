"""NVML: the memory of a device and of this process on it, and the device's state; every failure is a reason in words.

Devices are matched to torch's by UUID, never by index: CUDA_VISIBLE_DEVICES renumbers torch's only.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from attnbench.measure.environment import Facts
from attnbench.measure.host_memory import Reading, looking

_PERIOD = 0.005
_RUNNING = "nvmlDeviceGetComputeRunningProcesses"
# bits of nvmlClocksEventReasons, as nvml.h names them
POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
HEAT = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
# policies of nvmlDeviceGetViolationStatus, whose time only rises
_POLICIES = {"power": 0, "thermal": 1, "board": 3, "reliability": 5}


class NvmlUnavailableError(RuntimeError):
    """NVML cannot be used here; the message says why."""


def library() -> Any:  # noqa: ANN401 - a module without types
    """Return the initialised NVML bindings (package nvidia-ml-py, module pynvml). Raises NvmlUnavailableError."""
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
    """Open NVML, and shut it down afterwards. Raises NvmlUnavailableError, also where a GPU is lost meanwhile."""
    nvml = nvml or library()
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML: {error}") from error
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def handle(nvml: Any, uuid: str) -> Any:  # noqa: ANN401
    """Return the device with a UUID as torch prints it: with the prefix `GPU-` or `MIG-`, or without."""
    names = [uuid] if uuid.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"]
    for name in names:
        try:
            return nvml.nvmlDeviceGetHandleByUUID(name)
        except nvml.NVMLError as error:
            why = str(error)
    # without the UUID: this is a fact about the device, and devices whose facts are the same are alike
    raise NvmlUnavailableError(f"NVML does not know the device that torch uses: {why}")


def process_bytes(nvml: Any, device: Any) -> int | None:  # noqa: ANN401
    """Return the bytes of this process on the device; None where NVML does not tell (WSL, containers, MIG)."""
    used = (p.usedGpuMemory for p in _asked(nvml, _RUNNING, device) or () if p.pid == os.getpid())
    return next((int(found) for found in used if found), None)


def other_processes(nvml: Any, device: Any, *, present: bool = True) -> int | None:  # noqa: ANN401
    """Count the other processes on the device, where this one computes too (`present`); None where NVML does not tell."""
    running = _asked(nvml, _RUNNING, device)
    if running is None:
        return None
    others: int = sum(p.pid != os.getpid() for p in running)
    # in a container NVML gives the process numbers of the host: where none is ours, one of them is this process
    return max(0, others - 1) if present and others == len(running) else others


def _asked(nvml: Any, function: str, *arguments: object) -> Any:  # noqa: ANN401
    """Return what a function of NVML gives; None where the device, the driver or the bindings do not tell."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def device_state(nvml: Any, device: Any, *, present: bool = True) -> Facts:  # noqa: ANN401
    """Return facts by name, None for what the device does not tell; `present` says that this process computes there too."""
    ask = partial(_asked, nvml)
    power, reasons = ask("nvmlDeviceGetPowerUsage", device), ask("nvmlDeviceGetCurrentClocksEventReasons", device)
    held = {name: ask("nvmlDeviceGetViolationStatus", device, policy) for name, policy in _POLICIES.items()}
    return {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", device, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", device, nvml.NVML_CLOCK_MEM),
        "power_w": None if power is None else power / 1000,
        "temperature_c": ask("nvmlDeviceGetTemperature", device, nvml.NVML_TEMPERATURE_GPU),
        # drivers before 535 know the second name only
        "throttle_reasons": ask("nvmlDeviceGetCurrentClocksThrottleReasons", device) if reasons is None else reasons,
        **{f"held_by_{name}_ns": None if each is None else each.violationTime for name, each in held.items()},
        "other_processes": other_processes(nvml, device, present=present),
    }


def settings(nvml: Any, device: Any) -> Facts:  # noqa: ANN401
    """Return what was set on the device and stays so from run to run; None for what it does not tell."""
    ask = partial(_asked, nvml)
    limit, ecc = ask("nvmlDeviceGetEnforcedPowerLimit", device), ask("nvmlDeviceGetEccMode", device)
    return {
        "driver": ask("nvmlSystemGetDriverVersion"),
        "power_limit_w": None if limit is None else limit / 1000,
        "ecc": None if ecc is None else bool(ecc[0]),
    }


def state_flags(states: list[Facts]) -> tuple[str, ...]:
    """Return the warnings that hold in any of the states, or between the first and the last.

    `throttled` (by heat or hardware), `power_capped`, `shared` with other processes; `throttling_unknown` where NVML is there
    and tells neither why clocks are low nor for how long they were.
    """
    reasons = [int(facts.get("throttle_reasons") or 0) for facts in states]
    first, last = states[0], states[-1]
    names = {name: f"held_by_{name}_ns" for name in _POLICIES}
    told = {name for name, key in names.items() if first.get(key) is not None and last.get(key) is not None}
    rose = {name for name in told if int(last[names[name]] or 0) > int(first[names[name]] or 0)}
    silent = any("throttle_reasons" in facts and facts["throttle_reasons"] is None for facts in states)
    found = {
        "throttled": any(each & HEAT for each in reasons) or bool(rose - {"power"}),
        "power_capped": any(each & POWER_CAP for each in reasons) or "power" in rose,
        "throttling_unknown": silent and not told,
        "shared": any(facts.get("other_processes") for facts in states),
    }
    return tuple(name for name, holds in found.items() if holds)


@contextmanager
def sampled(nvml: Any, device: Any) -> Iterator[dict[str, Reading]]:  # noqa: ANN401
    """Sample the memory of this process and of the whole device in a thread, which disturbs timing.

    The counters, by name, are there once the block is closed; if the device is lost meanwhile, they say so.
    """

    def used() -> int:
        return int(nvml.nvmlDeviceGetMemoryInfo(device).used)

    base_process = peak_process = process_bytes(nvml, device)
    base_device = peak_device = used()
    lost, readings = "", dict[str, Reading]()

    def look() -> None:
        nonlocal peak_process, peak_device, lost
        try:
            peak_device = max(peak_device, used())
        except nvml.NVMLError as error:
            lost = f"NVML: {error}"
        if (own := process_bytes(nvml, device)) is not None:
            peak_process = max(peak_process or 0, own)

    with looking(look, _PERIOD):
        yield readings
    if lost:
        readings |= unavailable(lost)
        return
    hidden = "NVML does not show this process' memory (container, WSL or MIG)"
    for name, found, when in (("peak", peak_process, "sampled every 5 ms"), ("base", base_process, "before the call")):
        readings[f"nvml_process_{name}"] = Reading(found, f"NVML, own process, {when}", None if found else hidden)
    # the whole device includes other processes: this is used, and flagged, only where ours cannot be seen
    readings["nvml_device_delta"] = Reading(
        peak_device - base_device,
        "NVML, whole device, less the baseline",
        "sees other processes too",
        flag=None if peak_process else "device_delta",
    )


def unavailable(reason: str) -> dict[str, Reading]:
    """Return all NVML counters as not read, with the reason."""
    return {name: Reading(None, "NVML", reason) for name in ("nvml_process_peak", "nvml_process_base", "nvml_device_delta")}
