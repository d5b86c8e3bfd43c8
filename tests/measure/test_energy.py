"""Energy: counters of a GPU and of a CPU's packages over a window, what is wrong with a window, and reasons in words."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench.measure.energy import EnergyProbe, NvmlMeter, Power, Rapl, UnreadableError, integrated, metered


@dataclass
class Powercap:
    """A powercap folder of the test's own, with the domains that it is given."""

    root: Path

    def domain(self, number: object, micro_joules: object, name: str = "package-0", whole: object = 262_143_328_850) -> None:
        folder = self.root / f"intel-rapl{number}"
        folder.mkdir(exist_ok=True)
        for file, text in {"name": name, "energy_uj": micro_joules, "max_energy_range_uj": whole}.items():
            (folder / file).write_text(f"{text}\n")

    def over(self, change: Callable[[], object], *window: float) -> Any:
        """What is said of a window in which something changes."""
        with metered("cpu", self.root) as probe:
            return over(probe, change, *window)


@pytest.fixture
def powercap(tmp_path: Path) -> Powercap:
    return Powercap(tmp_path)


@pytest.fixture(autouse=True)
def all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)


def over(probe: EnergyProbe, change: Callable[[], object], seconds: float = 2.0, calls: float = 10, timed: float = 1.9) -> Any:
    """What a probe says of a window of these many seconds, in which something changes."""
    probe.read()
    change()
    probe.read()
    return probe.energy(seconds, int(calls), timed)


def reason(energy: Any) -> str:
    assert (energy.joules_per_call, energy.flags, set(energy.facts)) == (None, (), {"energy_reason"})
    return str(energy.facts["energy_reason"])


def test_the_energy_of_all_packages_is_shared_out_among_the_calls(powercap: Powercap) -> None:
    powercap.domain(":0", 1_000_000)
    powercap.domain(":1", 5_000_000, "package-1")

    def work() -> None:
        powercap.domain(":0", 31_000_000)
        powercap.domain(":1", 15_000_000, "package-1")

    found = powercap.over(work)
    assert found.joules_per_call == pytest.approx(4.0)
    assert found.facts == {
        **{"energy_meter": "RAPL, package-0, package-1", "energy_joules": pytest.approx(40.0)},
        **{"energy_by_power_joules": None, "energy_calls": 10, "energy_timed_share": pytest.approx(0.95)},
    }
    assert found.flags == ()


def test_parts_of_a_package_and_the_whole_board_are_not_counted_twice(powercap: Powercap) -> None:
    for zone, name in ((":0", "package-0"), (":0:0", "core"), (":0:1", "dram"), (":1", "psys"), ("-mmio:0", "package-0")):
        powercap.domain(zone, 7, name)
    assert Rapl(powercap.root).read() == (7,)


def test_a_counter_that_began_again_from_zero_is_seen_by_its_range(powercap: Powercap) -> None:
    powercap.domain(":0", 65_000_000_000, whole=65_532_610_987)
    found = powercap.over(lambda: powercap.domain(":0", 467_389_013, whole=65_532_610_987))
    assert found.joules_per_call == pytest.approx(100.0)


def test_it_is_said_that_others_may_use_the_rest_of_the_cores(powercap: Powercap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    powercap.domain(":0", 1)
    assert Rapl(powercap.root).name == "RAPL, package-0, where this process may use 8 of 64 cores"


def test_a_machine_without_packages_has_a_reason(powercap: Powercap) -> None:
    says = f"{powercap.root} shows no package of RAPL: few virtual machines and containers do"
    assert reason(powercap.over(lambda: None)) == says
    powercap.domain(":0", 1, "psys")
    assert reason(powercap.over(lambda: None)) == says


def test_a_counter_that_only_root_may_read_has_a_reason(powercap: Powercap, monkeypatch: pytest.MonkeyPatch) -> None:
    powercap.domain(":0", 1)
    counter, known = powercap.root / "intel-rapl:0" / "energy_uj", Path.read_text

    def read_text(self: Path) -> str:
        if self == counter:
            raise PermissionError(13, "Permission denied")
        return known(self)

    monkeypatch.setattr(Path, "read_text", read_text)
    said = f"{counter} cannot be read: Permission denied; most kernels let only root read it"
    assert reason(powercap.over(lambda: None)) == said


def test_a_counter_that_is_no_number_or_is_lost_on_the_way_has_a_reason(powercap: Powercap) -> None:
    powercap.domain(":0", "what is this")
    assert "energy_uj holds no number: 'what is this'" in reason(powercap.over(lambda: None))
    powercap.domain(":0", 12)
    found = powercap.over((powercap.root / "intel-rapl:0" / "energy_uj").unlink)
    assert "energy_uj cannot be read: No such file or directory" in reason(found)


LATE = ", and the counter needs 0.005 s: it is up to 0.001 s late at either end"


@pytest.mark.parametrize(
    ("window", "risen", "says"),
    [
        ((66.0, 10, 66.0), 99, "RAPL counts up to 65533 J, which may be passed twice in 66 s"),
        # and no zero
        ((2.0, 10, 1.9), 12, "the counter did not rise in 2 s (RAPL, package-0)"),
        ((0.004, 1, 0.004), 99, f"samples were taken for 0.004 s{LATE}"),
        ((3.0, 0, 3.0), 99, f"samples were taken for 3 s{LATE}"),
        ((2.0, 10, 0.5), 99, "timed calls took 25% of the time between the readings, and the rest would count as theirs"),
    ],
)
def test_a_meaningless_window_says_why(powercap: Powercap, window: tuple[float, float, float], risen: int, says: str) -> None:
    powercap.domain(":0", 12, whole=65_532_610_987)
    assert reason(powercap.over(lambda: powercap.domain(":0", risen, whole=65_532_610_987), *window)) == says


def test_the_meter_is_read_outside_of_what_is_marked() -> None:
    order: list[str] = []

    class Noted(NvmlMeter):
        def read(self) -> tuple[int, ...]:
            order.append("meter")
            return (len(order) * 1000,)

        def power(self) -> list[Power]:
            order.append("power")
            return []

    probe = EnergyProbe(Noted(None, None))
    mark = probe.around(lambda: order.append("mark"))
    mark()
    order.append("samples")
    mark()
    assert order == ["meter", "mark", "samples", "mark", "meter", "power"]
    assert probe.energy(2.0, 4, 2.0).joules_per_call == pytest.approx(1.0)


def test_without_a_meter_the_window_is_marked_all_the_same_and_one_that_was_never_sampled_has_a_reason() -> None:
    marks: list[int] = []
    probe = EnergyProbe(None, "no counter here")
    mark = probe.around(lambda: marks.append(1))
    mark()
    mark()
    assert len(marks) == 2
    assert reason(probe.energy(2.0, 4, 2.0)) == "no counter here"
    assert reason(EnergyProbe(None).energy(2.0, 4, 2.0)) == "nothing was read"


@pytest.fixture
def gpu(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stub of NVML, whose one GPU torch is made to tell of."""
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    return nvml


def gpu_over(gpu: Any, joules: float, *window: float) -> Any:
    """What is said of a window in which the counter of the GPU rises by so much."""
    with metered("cuda:0") as probe:
        return over(probe, lambda: setattr(gpu, "millijoules", gpu.millijoules + round(1000 * joules)), *window)


@pytest.mark.parametrize(("joules", "disagrees"), [(630.0, False), (501.0, False), (499.0, True), (751.0, True)])
def test_the_energy_of_a_gpu_is_flagged_where_its_power_disagrees(gpu: Any, joules: float, disagrees: bool) -> None:
    gpu.power = [(time, 300.0) for time in range(0, 4_000_000, 20_000)]
    found = gpu_over(gpu, joules)
    assert gpu.open == 0
    assert found.joules_per_call == pytest.approx(joules / 10)
    assert found.facts["energy_meter"] == "NVML, total energy of the GPU"
    assert found.facts["energy_joules"] == pytest.approx(joules)
    assert found.facts["energy_by_power_joules"] == pytest.approx(600.0)
    assert found.flags == (("energy_disagrees",) if disagrees else ())


def test_only_the_power_within_the_window_counts_and_of_less_than_half_of_it_says_nothing() -> None:
    idle, busy = [Power(i * 0.1, 60.0) for i in range(30)], [Power(3 + i * 0.1, 700.0) for i in range(11)]
    assert integrated(idle + busy, 1.0) == pytest.approx(700.0, rel=0.01)
    assert integrated([], 2.0) is integrated([Power(9.5, 300.0), Power(10.0, 300.0)], 2.0) is None


def test_a_gpu_may_keep_no_power_but_needs_a_counter_half_a_second_and_nvml(gpu: Any) -> None:
    gpu.nvmlDeviceGetSamples = gpu.refuses
    found = gpu_over(gpu, 50)
    assert (found.joules_per_call, found.facts["energy_by_power_joules"]) == (5.0, None)
    says = "samples were taken for 0.45 s, and the counter needs 0.5 s: it is up to 0.1 s late at either end"
    assert reason(gpu_over(gpu, 50, 0.45, 10, 0.45)) == says
    gpu.nvmlDeviceGetTotalEnergyConsumption = gpu.refuses
    assert reason(gpu_over(gpu, 50)) == "NVML tells no total energy of this device: GPU is lost"
    gpu.uuid = "GPU-5678"
    assert reason(gpu_over(gpu, 50)) == "NVML does not know the device that torch uses: Not Found"


def test_what_the_block_raises_is_raised_and_nvml_is_shut_down(gpu: Any) -> None:
    with pytest.raises(UnreadableError, match="from within"), metered("cuda:0"):
        raise UnreadableError("from within")
    assert gpu.open == 0
