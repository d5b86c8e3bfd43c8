"""The state of a CPU around a measurement, read from files of the kernel that the test writes."""

from typing import Any

import pytest

from attnbench.measure import host_conditions
from attnbench.measure.host_conditions import HostCounters, cgroup_file, facts, flags

QUIET = [1.0, 1.01, 0.99, 1.0]
STAT = "cpu  100 2 30 4000 50 6 7 80 0 0\ncpu0 100 2 30 4000 50 6 7 80 0 0\nintr 12345\n"


def test_what_goes_on_on_cores_that_this_process_may_not_use_is_not_counted(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.write(
        "/proc/stat", "cpu 13 0 0 7 0 0 0 3\ncpu0 1 0 0 2 0 0 0 1\ncpu1 2 0 0 4 0 0 0 2\ncpu2 10 0 0 1 0 0 0 0\nintr 1\n"
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = HostCounters.read()
    assert (found.total_ticks, found.steal_ticks, found.busy_ticks) == (12, 3, 3)


def test_ticks_are_summed_over_the_first_eight_columns(kernel: Any) -> None:
    kernel.write("/proc/stat", STAT)
    found = HostCounters.read()
    assert (found.total_ticks, found.steal_ticks, found.throttled, found.busy_ticks) == (4275, 80, None, 145)


@pytest.mark.parametrize("stat", [None, "", "cpu  what is this\n"], ids=["absent", "empty", "garbled"])
def test_without_a_readable_stat_file_the_counters_are_zero(kernel: Any, stat: str | None) -> None:
    if stat is not None:
        kernel.write("/proc/stat", stat)
    found = HostCounters.read()
    assert (found.total_ticks, found.steal_ticks, found.throttled, found.busy_ticks) == (0, 0, None, 0)


def test_a_kernel_that_does_not_count_stolen_time_has_none(kernel: Any) -> None:
    kernel.write("/proc/stat", "cpu  100 2 30 4000\n")
    found = HostCounters.read()
    assert (found.total_ticks, found.steal_ticks, found.busy_ticks) == (4132, 0, 132)


def test_throttled_periods_are_read_from_this_process_own_control_group(kernel: Any) -> None:
    kernel.write("/proc/self/cgroup", "12:memory:/elsewhere\n0::/user.slice/job\n")
    kernel.write("/sys/fs/cgroup/user.slice/job/cpu.stat", "usage_usec 12\nnr_periods 9\nnr_throttled 4\nthrottled_usec 7\n")
    assert host_conditions.throttled_periods() == 4


@pytest.mark.parametrize(
    ("cgroup", "stat"),
    [("", ""), ("0::/job\n", None), ("0::/job\n", "usage_usec 12\n")],
    ids=["no version 2", "no such file", "no quota"],
)
def test_without_a_quota_throttling_is_not_known(kernel: Any, cgroup: str, stat: str | None) -> None:
    kernel.write("/proc/self/cgroup", cgroup)
    if stat is not None:
        kernel.write("/sys/fs/cgroup/job/cpu.stat", stat)
    assert host_conditions.throttled_periods() is None


def test_a_control_group_file_that_is_not_there_is_none(kernel: Any) -> None:
    kernel.write("/proc/self/cgroup", "0::/job\n")
    assert cgroup_file("memory.max") is None


def test_facts_are_differences_between_two_readings(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.write("governor", "powersave\n")
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 9.0, 9.0))
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    found = facts(HostCounters(1000, 10, 3, 500, 1.0), HostCounters(1400, 14, 8, 700, 2.5))
    assert found == {
        "others_percent": 12.5,  # 200 ticks were busy, 150 of them ours, of 400
        "load_1min": 1.5,
        "steal_percent": 1.0,
        "cgroup_throttled": 5,
        "governor": "powersave",
    }


def test_what_cannot_be_known_is_none(kernel: Any) -> None:
    found = facts(HostCounters(0, 0, None), HostCounters(0, 0, None))
    assert (found["steal_percent"], found["cgroup_throttled"], found["governor"]) == (None, None, None)


@pytest.mark.parametrize(
    ("conditions", "samples", "expected"),
    [
        ({}, QUIET, ()),
        ({}, [1.0], ()),
        ({}, [1.0, 1.5, 1.0, 1.5], ("noisy",)),
        ({"load_1min": 9.0, "others_percent": 4.9}, QUIET, ()),
        ({"load_1min": 0.1, "others_percent": 5.1}, QUIET, ("loaded",)),
        ({"steal_percent": 1.0}, QUIET, ()),
        ({"steal_percent": 1.1}, QUIET, ("stolen",)),
        ({"steal_percent": None, "cgroup_throttled": None}, QUIET, ()),
        ({"cgroup_throttled": 0}, QUIET, ()),
        ({"cgroup_throttled": 1}, QUIET, ("throttled",)),
        (
            {"others_percent": 9.0, "cgroup_throttled": 2, "steal_percent": 5.0},
            [1.0, 2.0],
            ("noisy", "loaded", "stolen", "throttled"),
        ),
    ],
)
def test_warnings_follow_from_the_conditions_and_the_spread(
    conditions: dict[str, float | None], samples: list[float], expected: tuple[str, ...]
) -> None:
    assert flags(dict(conditions), samples) == expected


def test_this_machine_can_be_read_twice() -> None:
    before = HostCounters.read()
    found = facts(before, HostCounters.read())
    assert set(found) == {"others_percent", "load_1min", "steal_percent", "cgroup_throttled", "governor"}
