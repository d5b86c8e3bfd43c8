"""The state of a GPU around a measurement: clocks, power, temperature, why it is slowed, who else is there."""

from typing import Any

from attnbench.measure.nvml import other_processes

Facts = dict[str, bool | int | float | str | None]
# bits of nvmlClocksEventReasons, as nvml.h names them
POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
HEAT = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE


def state(nvml: Any, device: Any, *, present: bool = True) -> Facts:  # noqa: ANN401 - NVML has no types
    """Facts by name; one that the device does not tell is None. `present`: whether this process computes there too."""

    def ask(function: str, *arguments: object) -> Any:  # noqa: ANN401
        try:
            return getattr(nvml, function)(device, *arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    power = ask("nvmlDeviceGetPowerUsage")
    return {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        "power_w": None if power is None else power / 1000,
        "temperature_c": ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        "other_processes": other_processes(nvml, device, present=present),
    }


def flags(states: list[Facts]) -> tuple[str, ...]:
    """`throttled` for heat or hardware, `power_capped`, `shared` with other processes: by any of the states."""
    reasons = 0
    for facts in states:
        reasons |= int(facts.get("throttle_reasons") or 0)
    found = {
        "throttled": bool(reasons & HEAT),
        "power_capped": bool(reasons & POWER_CAP),
        "shared": any(facts.get("other_processes") for facts in states),
    }
    return tuple(name for name, holds in found.items() if holds)
