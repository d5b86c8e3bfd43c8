"""What numbers depend on besides the device, and the state of a CPU around a measurement, from files that the test writes."""

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.measure import environment, host_conditions
from attnbench.measure.host_conditions import HostCounters, facts, flags

Kernel = Callable[[str, str], None]
QUIET = [1.0, 1.01, 0.99, 1.0]
ALL = ("noisy", "loaded", "stolen", "throttled")


def test_the_environment_tells_what_numbers_depend_on_and_the_same_when_it_is_gathered_twice() -> None:
    facts = environment.gather()
    assert facts == environment.gather()
    assert {"processor", "cores", "memory_gib", "system", "libc", "python", "torch", "numpy"} <= set(facts)
    assert facts["processor"]
    assert int(facts["cores"] or 0) >= 1


def test_the_digest_stays_the_same_for_ever_whatever_the_order_of_facts_and_changes_with_every_fact() -> None:
    orders: list[environment.Facts] = [{"python": "3.11.9", "cores": 2}, {"cores": 2, "python": "3.11.9"}]
    assert {environment.digest(facts) for facts in orders} == {"413cd32d27f7"}
    others: list[environment.Facts] = [{"torch": "2.13"}, {"torch": "2.14"}, {"torch": None}, {"torch": "2.13", "x": 1}, {}]
    assert len({environment.digest(facts) for facts in others}) == 5


def test_what_is_not_installed_has_no_version_and_any_processor_a_name_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.version("surely-not-installed-anywhere") is None
    assert environment.version("torch")
    monkeypatch.setattr("platform.processor", lambda: "")
    hidden = "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel\t\t: 3\n"
    named = "model name\t: EPYC 7763\nmodel\t: 1\n"
    for told, name in ((hidden, "AMD EPYC family 26 model 2"), (named, "EPYC 7763"), ("", platform.machine())):
        monkeypatch.setattr(Path, "read_text", lambda _, told=told: told)
        assert environment.processor() == name


def test_without_git_or_outside_a_checkout_there_is_no_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment.git_state(tmp_path) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.git_state(tmp_path) == {}


def test_a_checkout_is_clean_until_a_file_is_added(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    clean = environment.git_state(tmp_path)
    (tmp_path / "new").write_text("x")
    assert len(str(clean["commit"])) == 40
    assert not clean["dirty"]
    assert environment.git_state(tmp_path) == {"commit": clean["commit"], "dirty": True}


def test_gathering_never_imports_torch() -> None:
    code = (
        "import sys; from attnbench.measure import environment, host_conditions; "
        "environment.digest(environment.gather()); host_conditions.HostCounters.read(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("stat", "total", "steal", "busy"),
    [
        # not that of the core that this process may not use
        ("cpu 13 0 0 7 0 0 0 3\ncpu0 1 0 0 2 0 0 0 1\ncpu1 2 0 0 4 0 0 0 2\ncpu2 10 0 0 1 0 0 0 0\nintr 1\n", 12, 3, 3),
        # of the first eight columns
        ("cpu  100 2 30 4000 50 6 7 80 9 9\ncpu0 100 2 30 4000 50 6 7 80 9 9\nintr 12345\n", 4275, 80, 145),
        ("cpu  100 2 30 4000\n", 4132, 0, 132),
        (None, 0, 0, 0),
        ("", 0, 0, 0),
        ("cpu  what is this\n", 0, 0, 0),
    ],
    ids=["several cores", "one core", "stolen time is not counted", "absent", "empty", "garbled"],
)
def test_ticks_are_those_of_the_cores_that_this_process_may_use_and_zero_where_none_can_be_read(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, stat: str | None, total: int, steal: int, busy: int
) -> None:
    if stat is not None:
        kernel("/proc/stat", stat)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = HostCounters.read()
    assert (found.total_ticks, found.steal_ticks, found.busy_ticks, found.throttled) == (total, steal, busy, None)


def test_throttled_periods_are_those_of_this_process_own_control_group_and_of_those_around_it(kernel: Kernel) -> None:
    kernel("/proc/self/cgroup", "12:memory:/elsewhere\n0::/user.slice/job\n")
    kernel("/sys/fs/cgroup/user.slice/job/cpu.stat", "usage_usec 12\nnr_periods 9\nnr_throttled 4\nthrottled_usec 7\n")
    assert host_conditions.throttled_periods() == 4
    kernel("/sys/fs/cgroup/user.slice/cpu.stat", "nr_throttled 3\n")
    assert host_conditions.throttled_periods() == 7


def test_without_a_quota_throttling_is_not_known(kernel: Kernel) -> None:
    kernel("/proc/self/cgroup", "0::/job\n")
    assert host_conditions.throttled_periods() is None, "the group has no such file"
    kernel("/sys/fs/cgroup/job/cpu.stat", "usage_usec 12\n")
    assert host_conditions.throttled_periods() is None, "the group has no quota"
    kernel("/proc/self/cgroup", "")
    assert host_conditions.throttled_periods() is None, "there are no groups of version 2"


def test_facts_are_differences_between_two_readings(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel("governor", "powersave\n")
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 9.0, 9.0))
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    assert facts(HostCounters(1000, 10, 3, 500, 1.0), HostCounters(1400, 14, 8, 700, 2.5)) == {
        "others_percent": 12.5,  # 200 ticks were busy, 150 of them ours, of 400
        "load_1min": 1.5,
        "steal_percent": 1.0,
        "cgroup_throttled": 5,
        "governor": "powersave",
    }


def test_what_cannot_be_known_is_none(kernel: Kernel) -> None:
    found = facts(HostCounters(0, 0, None), HostCounters(0, 0, None))
    assert [found[name] for name in ("others_percent", "steal_percent", "cgroup_throttled", "governor")] == [None] * 4


@pytest.mark.parametrize(
    ("conditions", "samples", "expected"),
    [
        ({}, QUIET, ()),
        ({}, [1.0], ()),
        ({}, [1e-3, 1.5e-3, 1e-3, 1.5e-3], ("noisy",)),
        ({"load_1min": 9.0, "others_percent": 4.9}, QUIET, ()),
        ({"load_1min": 0.1, "others_percent": 5.1}, QUIET, ("loaded",)),
        ({"steal_percent": 1.0}, QUIET, ()),
        ({"steal_percent": 1.1}, QUIET, ("stolen",)),
        ({"steal_percent": None, "cgroup_throttled": 0}, QUIET, ()),
        ({"cgroup_throttled": 1}, QUIET, ("throttled",)),
        ({"others_percent": 9.0, "cgroup_throttled": 2, "steal_percent": 5.0}, [1.0, 2.0], ALL),
    ],
)
def test_warnings_follow_from_the_conditions_and_the_spread(
    conditions: dict[str, float | None], samples: list[float], expected: tuple[str, ...]
) -> None:
    assert flags(dict(conditions), samples) == expected
