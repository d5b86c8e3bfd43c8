"""NVML: devices by UUID, memory or the reason why not, failures in words; the state of a GPU, and warnings from its bits."""

import os
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
import torch

from attnbench.measure import nvml as module
from attnbench.measure.nvml import NvmlUnavailableError, device_state, other_processes, sampled, state_flags
from tests.measure.conftest import NVMLError

OWN, OTHER = os.getpid(), 1
Processes = list[tuple[int, int | None]]


@pytest.mark.parametrize(
    ("uuid", "name"), [("1234", "GPU-1234"), ("GPU-1234", "GPU-1234"), ("MIG-77", "MIG-77"), ("77", "MIG-77")]
)
def test_a_device_or_a_slice_of_one_is_found_by_uuid_with_and_without_its_prefix(nvml: Any, uuid: str, name: str) -> None:
    nvml.uuid = name
    assert module.handle(nvml, uuid) == f"handle of {name}"
    # the reason is a fact, by which like devices are told from others: it names none of them
    with pytest.raises(NvmlUnavailableError, match=r"torch uses: Not Found$"):
        module.handle(nvml, "9")


def test_a_missing_package_and_a_silent_driver_are_said_in_words(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    stub = ModuleType("pynvml")
    stub.__dict__.update(NVMLError=nvml.NVMLError, nvmlInit=nvml.refuses)
    for bindings, says in ((None, "nvidia-ml-py is not installed"), (stub, "NVML: GPU is lost")):
        monkeypatch.setitem(sys.modules, "pynvml", bindings)
        with pytest.raises(NvmlUnavailableError, match=says):
            module.library()


def test_a_session_shuts_nvml_down_also_when_its_block_raises_and_a_shutdown_that_fails_is_no_failure(nvml: Any) -> None:
    with pytest.raises(ZeroDivisionError), module.session(nvml):
        raise ZeroDivisionError
    assert nvml.open == 0
    with pytest.raises(NvmlUnavailableError, match="NVML: GPU is lost"), module.session(nvml):
        nvml.refuses()
    nvml.nvmlShutdown = nvml.refuses
    with module.session(nvml) as opened:
        assert opened is nvml


@pytest.mark.parametrize(
    ("processes", "own", "others"),
    [
        ([(OWN, 500)], 500, 0),
        ([(OTHER, 900), (OWN, 500)], 500, 1),
        ([], None, 0),
        ([(OWN, None)], None, 0),
        ([(OWN, 0)], None, 0),
        # a container's NVML tells the host's numbers: one of them is this process
        ([(OTHER, 900)], None, 0),
        ([(OTHER, 900), (OTHER + 1, 900)], None, 1),
    ],
    ids=["own", "own beside another", "nobody", "no number", "zero", "alone in a container", "with another in a container"],
)
def test_the_memory_of_this_process_is_a_number_or_none_but_never_zero_and_others_are_counted_without_it(
    nvml: Any, processes: Processes, own: int | None, others: int
) -> None:
    nvml.processes = processes
    assert (module.process_bytes(nvml, "device"), other_processes(nvml, "device")) == (own, others)


def test_who_is_not_on_the_device_takes_nobody_for_itself_and_what_is_not_told_is_not_known(nvml: Any) -> None:
    nvml.processes = [(OTHER, 900)]
    assert other_processes(nvml, "device", present=False) == 1
    nvml.nvmlDeviceGetComputeRunningProcesses = nvml.refuses
    assert module.process_bytes(nvml, "device") is None
    assert other_processes(nvml, "device") is None


def test_the_peak_is_the_highest_of_all_samples_and_the_base_the_first(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PERIOD", 0.0)
    seen, asked = threading.Event(), nvml.nvmlDeviceGetMemoryInfo

    def info(device: object) -> Any:
        answer = asked(device)
        if answer.used == 9000:
            seen.set()
        return answer

    nvml.nvmlDeviceGetMemoryInfo = info
    nvml.processes = [(OWN, 500)]
    with sampled(nvml, "device") as readings:
        nvml.processes, nvml.used = [(OWN, 8500)], 9000
        assert seen.wait(10)
        seen.clear()
        assert seen.wait(10)  # a whole sample has ended since, that of the process included
        nvml.used, nvml.processes = 2000, [(OWN, 1500)]
    found = {name: reading.bytes for name, reading in readings.items()}
    assert found == {"nvml_process_peak": 8500, "nvml_process_base": 500, "nvml_device_delta": 8000}
    assert readings["nvml_device_delta"].flag is None


@pytest.mark.parametrize(
    ("processes", "appear", "peak"),
    [*((hidden, hidden, None) for hidden in ([], [(OWN, None)], [(OWN, 0)], [(OTHER, 900)])), ([], [(OWN, 800)], 800)],
    ids=["empty", "none", "zero", "only foreign", "only during the call"],
)
def test_a_hidden_process_has_no_number_but_a_reason_and_the_device_delta_is_flagged(
    nvml: Any, monkeypatch: pytest.MonkeyPatch, processes: Processes, appear: Processes, peak: int | None
) -> None:
    # no sample falls into so short a call: what is alive at its end is seen all the same
    monkeypatch.setattr(module, "_PERIOD", 3600.0)
    nvml.processes = processes
    with sampled(nvml, "device") as readings:
        nvml.used, nvml.processes = nvml.used + 700, appear
    for name, known in (("nvml_process_peak", peak), ("nvml_process_base", None)):
        assert readings[name].bytes == known
        assert ("does not show this process" in (readings[name].reason or "")) is (known is None)
    delta = readings["nvml_device_delta"]
    assert (delta.bytes, delta.flag) == (700, None if peak else "device_delta")


def test_a_device_that_is_lost_before_the_call_is_unavailable_and_during_it_gives_no_numbers_but_the_reason(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    with sampled(nvml, "device") as readings:
        nvml.nvmlDeviceGetMemoryInfo = nvml.refuses
    assert readings == module.unavailable("NVML: GPU is lost")
    with pytest.raises(NvmlUnavailableError, match="GPU is lost"), module.session(nvml), sampled(nvml, "device"):
        pass


def test_sampling_ends_with_the_call_also_when_it_raises(nvml: Any) -> None:
    threads = threading.active_count()
    with pytest.raises(MemoryError, match="no more"), sampled(nvml, "device"):
        raise MemoryError("no more")
    assert threading.active_count() == threads


def test_the_state_has_its_facts_in_si_units(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    held = {f"held_by_{name}_ns": 0 for name in ("power", "thermal", "board", "reliability")}
    told = {"sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_w": 312.5, "temperature_c": 61, "throttle_reasons": 0}
    assert device_state(nvml, "device") == told | held | {"other_processes": 0}


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
@pytest.mark.parametrize("error", [NVMLError, AttributeError], ids=["refused", "missing"])
def test_what_is_not_told_is_none_the_rest_is_told(nvml: Any, function: str, facts: list[str], error: type[Exception]) -> None:
    def untold(*_: object) -> None:
        raise error

    setattr(nvml, function, untold)
    assert [name for name, value in device_state(nvml, "device").items() if value is None] == facts


@pytest.mark.parametrize(
    ("flags", "reasons"),
    [
        # nothing, idle, or clocks set by the user
        ((), [0x0, 0x1, 0x2]),
        (("power_capped",), [0x4]),
        (("throttled",), [0x8, 0x20, 0x40, 0x80]),
        (("throttled", "power_capped"), [0x44]),
    ],
)
def test_the_bits_of_the_reasons_in_either_state_become_warnings(nvml: Any, flags: tuple[str, ...], reasons: list[int]) -> None:
    quiet = device_state(nvml, "device")
    for bits in reasons:
        nvml.reasons = bits
        told = device_state(nvml, "device")
        assert state_flags([quiet, told]) == state_flags([told, quiet]) == flags


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
    # there is no NVML
    assert state_flags([{}, {"nvml": "no driver"}]) == ()


def test_somebody_who_comes_in_mid_run_makes_the_measurement_shared(nvml: Any) -> None:
    nvml.processes = [(OWN, 500)]
    before = device_state(nvml, "device")
    nvml.processes.append((1, 900))
    assert state_flags([before, device_state(nvml, "device")]) == ("shared",)


@pytest.mark.cuda
def test_a_known_gibibyte_on_a_gpu_is_seen_within_ten_percent() -> None:
    torch.ones(1, device="cuda:0")
    torch.cuda.empty_cache()
    with module.session() as real:
        device = module.handle(real, str(torch.cuda.get_device_properties("cuda:0").uuid))
        with sampled(real, device) as found:
            held = torch.ones(2**28, device="cuda:0")
            torch.cuda.synchronize("cuda:0")
        readings = {name: reading.bytes for name, reading in found.items()}
    assert held.nbytes == 2**30
    peak, base = readings["nvml_process_peak"], readings["nvml_process_base"]
    grown = readings["nvml_device_delta"] if peak is None or base is None else peak - base
    assert grown == pytest.approx(2**30, rel=0.1)
