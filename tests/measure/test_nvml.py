"""NVML: devices by UUID, memory or the reason why not, failures in words; the state of a GPU, and warnings from its bits."""

import os
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
import torch

from attnbench.measure import nvml as nvml_module
from attnbench.measure.nvml import (
    NvmlSampler,
    NvmlUnavailableError,
    device_state,
    handle,
    library,
    other_processes,
    process_bytes,
    session,
    settings,
    state_flags,
    unavailable,
)

OWN, OTHER = os.getpid(), 1


@pytest.mark.parametrize("uuid", ["1234", "GPU-1234"])
def test_a_device_is_found_by_uuid_with_and_without_its_prefix(nvml: Any, uuid: str) -> None:
    assert handle(nvml, uuid) == "handle of GPU-1234"


def test_the_uuid_of_a_mig_slice_is_taken_as_it_is(nvml: Any) -> None:
    nvml.uuid = "MIG-77"
    assert handle(nvml, "MIG-77") == "handle of MIG-77"


def test_a_device_that_nvml_does_not_know_is_said_in_words(nvml: Any) -> None:
    with pytest.raises(NvmlUnavailableError, match="NVML knows no device GPU-9: Not Found"):
        handle(nvml, "9")


def test_a_missing_package_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailableError, match="nvidia-ml-py is not installed"):
        library()


def test_a_driver_that_does_not_answer_is_said_in_words(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    def init() -> None:
        raise nvml.NVMLError("Driver/library version mismatch")

    stub = ModuleType("pynvml")
    stub.__dict__.update(NVMLError=nvml.NVMLError, nvmlInit=init)
    monkeypatch.setitem(sys.modules, "pynvml", stub)
    with pytest.raises(NvmlUnavailableError, match="NVML: Driver/library version mismatch"):
        library()


def test_a_session_shuts_nvml_down_also_when_its_block_raises(nvml: Any) -> None:
    with pytest.raises(ZeroDivisionError), session(nvml):
        raise ZeroDivisionError
    assert nvml.open == 0


def test_a_shutdown_that_fails_is_no_failure(nvml: Any) -> None:
    nvml.nvmlShutdown = nvml.refuses
    with session(nvml) as opened:
        assert opened is nvml


@pytest.mark.parametrize(
    ("processes", "found"),
    [
        ([(OWN, 500)], 500),
        ([(OTHER, 900), (OWN, 500)], 500),
        ([], None),
        ([(OWN, None)], None),
        ([(OWN, 0)], None),
        ([(OTHER, 900)], None),
    ],
    ids=["own", "own beside another", "nobody", "own without a number", "own with 0", "another only"],
)
def test_the_memory_of_this_process_is_a_number_or_none_but_never_zero(
    nvml: Any, processes: list[tuple[int, int | None]], found: int | None
) -> None:
    nvml.processes = processes
    assert process_bytes(nvml, "device") == found


@pytest.mark.parametrize(
    ("processes", "others"),
    [
        ([(OWN, 500)], 0),
        ([(OWN, 500), (OTHER, 900)], 1),
        ([], 0),
        # a container's NVML tells the host's numbers: one of them is this process
        ([(OTHER, 900)], 0),
        ([(OTHER, 900), (OTHER + 1, 900)], 1),
    ],
    ids=["alone", "with another", "nobody", "alone in a container", "with another in a container"],
)
def test_others_on_the_device_are_counted_without_this_process(
    nvml: Any, processes: list[tuple[int, int | None]], others: int
) -> None:
    nvml.processes = processes
    assert other_processes(nvml, "device") == others


def test_who_is_not_on_the_device_takes_nobody_for_itself(nvml: Any) -> None:
    nvml.processes = [(OTHER, 900)]
    assert other_processes(nvml, "device", present=False) == 1


def test_processes_that_nvml_does_not_tell_are_none(nvml: Any) -> None:
    nvml.nvmlDeviceGetComputeRunningProcesses = nvml.refuses
    assert process_bytes(nvml, "device") is None
    assert other_processes(nvml, "device") is None


def test_the_peak_is_the_highest_of_all_samples_and_the_base_the_first(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_module, "_PERIOD", 0.0)
    seen = threading.Event()
    asked = nvml.nvmlDeviceGetMemoryInfo

    def info(device: object) -> Any:
        answer = asked(device)
        if answer.used == 9000:
            seen.set()
        return answer

    nvml.nvmlDeviceGetMemoryInfo = info
    nvml.processes = [(OWN, 500)]
    with NvmlSampler(nvml, "device") as sampler:
        nvml.processes, nvml.used = [(OWN, 8500)], 9000
        assert seen.wait(10)
        seen.clear()
        assert seen.wait(10)  # a whole sample has ended since, that of the process included
        nvml.used, nvml.processes = 2000, [(OWN, 1500)]
    found = {name: reading.bytes for name, reading in sampler.readings().items()}
    assert found == {"nvml_process_peak": 8500, "nvml_process_base": 500, "nvml_device_delta": 8000}
    assert sampler.readings()["nvml_device_delta"].flag is None


def test_what_is_alive_at_the_end_is_seen_however_short_the_call(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_module, "_PERIOD", 3600.0)
    nvml.processes = [(OWN, 500)]
    with NvmlSampler(nvml, "device") as sampler:
        nvml.used, nvml.processes = 4000, [(OWN, 3500)]
    assert sampler.readings()["nvml_process_peak"].bytes == 3500
    assert sampler.readings()["nvml_device_delta"].bytes == 3000


@pytest.mark.parametrize(
    "processes", [[], [(OWN, None)], [(OWN, 0)], [(OTHER, 900)]], ids=["empty", "none", "zero", "only foreign"]
)
def test_a_hidden_process_has_no_number_but_a_reason_and_the_device_delta_is_flagged(
    nvml: Any, processes: list[tuple[int, int | None]]
) -> None:
    nvml.processes = processes
    with NvmlSampler(nvml, "device") as sampler:
        nvml.used += 700
    readings = sampler.readings()
    for name in ("nvml_process_peak", "nvml_process_base"):
        assert readings[name].bytes is None
        assert "does not show this process" in (readings[name].reason or "")
    assert (readings["nvml_device_delta"].bytes, readings["nvml_device_delta"].flag) == (700, "device_delta")


def test_a_process_that_only_appears_during_the_call_has_a_peak_and_a_reason_for_its_missing_base(nvml: Any) -> None:
    with NvmlSampler(nvml, "device") as sampler:
        nvml.processes = [(OWN, 800)]
    readings = sampler.readings()
    assert (readings["nvml_process_peak"].bytes, readings["nvml_process_peak"].reason) == (800, None)
    assert readings["nvml_process_base"].bytes is None
    assert readings["nvml_process_base"].reason


def test_a_device_that_is_lost_before_the_call_is_unavailable(nvml: Any) -> None:
    nvml.nvmlDeviceGetMemoryInfo = nvml.refuses
    with pytest.raises(NvmlUnavailableError, match="GPU is lost"), NvmlSampler(nvml, "device"):
        pass


def test_a_device_that_is_lost_during_the_call_gives_no_numbers_but_the_reason(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    with NvmlSampler(nvml, "device") as sampler:
        nvml.nvmlDeviceGetMemoryInfo = nvml.refuses
    assert sampler.readings() == unavailable("NVML: GPU is lost")


def test_sampling_ends_with_the_call_also_when_it_raises(nvml: Any) -> None:
    threads = threading.active_count()
    with pytest.raises(MemoryError, match="no more"), NvmlSampler(nvml, "device"):
        raise MemoryError("no more")
    assert threading.active_count() == threads


def test_the_state_has_its_facts_in_si_units(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    assert device_state(nvml, "device") == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 312.5,
        "temperature_c": 61,
        "throttle_reasons": 0,
        "held_by_power_ns": 0,
        "held_by_thermal_ns": 0,
        "held_by_board_ns": 0,
        "held_by_reliability_ns": 0,
        "other_processes": 0,
    }


@pytest.mark.parametrize(
    ("function", "facts"),
    [
        ("nvmlDeviceGetPowerUsage", ["power_w"]),
        ("nvmlDeviceGetClockInfo", ["sm_clock_mhz", "memory_clock_mhz"]),
        ("nvmlDeviceGetTemperature", ["temperature_c"]),
        ("nvmlDeviceGetCurrentClocksEventReasons", ["throttle_reasons"]),
        ("nvmlDeviceGetViolationStatus", [f"held_by_{name}_ns" for name in ("power", "thermal", "board", "reliability")]),
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
    state = device_state(nvml, "device")
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
    assert state_flags([device_state(nvml, "device")]) == flags


@pytest.mark.parametrize("when", [0, 1])
def test_a_warning_holds_when_either_state_gives_it(nvml: Any, when: int) -> None:
    states = []
    for i in range(2):
        nvml.reasons = 0x40 if i == when else 0
        states.append(device_state(nvml, "device"))
    assert state_flags(states) == ("throttled",)


@pytest.mark.parametrize(
    ("policy", "flags"), [(0, ("power_capped",)), (1, ("throttled",)), (3, ("throttled",)), (5, ("throttled",)), (2, ())]
)
def test_clocks_that_were_held_only_in_between_are_warned_of(nvml: Any, policy: int, flags: tuple[str, ...]) -> None:
    nvml.violations = {0: 7, 1: 7, 3: 7, 5: 7}
    before = device_state(nvml, "device")
    assert state_flags([before, device_state(nvml, "device")]) == ()
    nvml.violations[policy] = 8
    assert state_flags([before, device_state(nvml, "device")]) == flags


def test_drivers_that_know_the_reasons_by_their_earlier_name_are_asked_by_it(nvml: Any) -> None:
    nvml.nvmlDeviceGetCurrentClocksEventReasons = nvml.refuses
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda device: 0x40
    assert state_flags([device_state(nvml, "device")]) == ("throttled",)


def test_a_device_that_tells_nothing_of_its_clocks_is_unknown_and_not_unthrottled(nvml: Any) -> None:
    nvml.nvmlDeviceGetCurrentClocksEventReasons = nvml.refuses
    before = device_state(nvml, "device")
    # how long they were held is told
    assert state_flags([before, device_state(nvml, "device")]) == ()
    nvml.nvmlDeviceGetViolationStatus = nvml.refuses
    assert state_flags([device_state(nvml, "device")] * 2) == ("throttling_unknown",)


def test_the_settings_of_a_device_are_told_as_far_as_it_tells_them(nvml: Any) -> None:
    assert settings(nvml, "device") == {"driver": "580.65", "power_limit_w": 700.0, "ecc": True}
    nvml.nvmlDeviceGetEccMode = nvml.refuses
    assert settings(nvml, "device")["ecc"] is None


def test_somebody_who_comes_in_mid_run_makes_the_measurement_shared(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    before = device_state(nvml, "device")
    nvml.processes.append((1, 900))
    assert state_flags([before, device_state(nvml, "device")]) == ("shared",)


def test_no_state_at_all_gives_no_warning() -> None:
    assert state_flags([{}, {"nvml": "no driver"}]) == ()


@pytest.mark.cuda
def test_a_known_gibibyte_on_a_gpu_is_seen_within_ten_percent() -> None:
    torch.ones(1, device="cuda:0")
    torch.cuda.empty_cache()
    with session() as real:
        device = handle(real, str(torch.cuda.get_device_properties("cuda:0").uuid))
        with NvmlSampler(real, device) as sampler:
            held = torch.ones(2**28, device="cuda:0")
            torch.cuda.synchronize("cuda:0")
        readings = {name: reading.bytes for name, reading in sampler.readings().items()}
    assert held.nbytes == 2**30
    peak, base = readings["nvml_process_peak"], readings["nvml_process_base"]
    grown = readings["nvml_device_delta"] if peak is None or base is None else peak - base
    assert grown == pytest.approx(2**30, rel=0.1)
