"""The state of a GPU: facts by name, None where the device does not tell, and warnings from its bits."""

import os
from typing import Any

import pytest

from attnbench.measure import telemetry

OWN = os.getpid()


def test_the_state_has_its_facts_in_si_units(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    assert telemetry.state(nvml, "device") == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 312.5,
        "temperature_c": 61,
        "throttle_reasons": 0,
        "other_processes": 0,
    }


@pytest.mark.parametrize(
    ("function", "facts"),
    [
        ("nvmlDeviceGetPowerUsage", ["power_w"]),
        ("nvmlDeviceGetClockInfo", ["sm_clock_mhz", "memory_clock_mhz"]),
        ("nvmlDeviceGetTemperature", ["temperature_c"]),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", ["throttle_reasons"]),
        ("nvmlDeviceGetComputeRunningProcesses", ["other_processes"]),
    ],
)
@pytest.mark.parametrize("how", ["refused", "missing"])
def test_what_the_device_does_not_tell_is_none_and_the_rest_is_still_told(
    nvml: Any, monkeypatch: pytest.MonkeyPatch, function: str, facts: list[str], how: str
) -> None:
    if how == "refused":
        setattr(nvml, function, nvml.refuses)
    else:
        monkeypatch.delattr(type(nvml), function)
    state = telemetry.state(nvml, "device")
    assert [name for name, value in state.items() if value is None] == facts


@pytest.mark.parametrize(
    ("reasons", "flags"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x2, ()),  # clocks set by the user
        (0x4, ("power_capped",)),
        (0x8, ("throttled",)),
        (0x20, ("throttled",)),
        (0x40, ("throttled",)),
        (0x80, ("throttled",)),
        (0x44, ("throttled", "power_capped")),
    ],
)
def test_the_bits_of_the_reasons_become_warnings(nvml: Any, reasons: int, flags: tuple[str, ...]) -> None:
    nvml.reasons = reasons
    assert telemetry.flags([telemetry.state(nvml, "device")]) == flags


@pytest.mark.parametrize("when", [0, 1])
def test_a_warning_holds_when_either_state_gives_it(nvml: Any, when: int) -> None:
    states = []
    for i in range(2):
        nvml.reasons = 0x40 if i == when else 0
        states.append(telemetry.state(nvml, "device"))
    assert telemetry.flags(states) == ("throttled",)


def test_somebody_who_comes_in_mid_run_makes_the_measurement_shared(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    before = telemetry.state(nvml, "device")
    nvml.processes.append((1, 900))
    assert telemetry.flags([before, telemetry.state(nvml, "device")]) == ("shared",)


def test_no_state_at_all_gives_no_warning() -> None:
    assert telemetry.flags([{}, {"nvml": "no driver"}]) == ()
