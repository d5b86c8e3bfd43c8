"""The time pass of a real, small method: what a row holds, what is said of the conditions, and which times are not believed."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from attnbench import registry
from attnbench.measure import energy, roof
from attnbench.measure.energy import EnergyProbe, NvmlMeter
from attnbench.measure.host_conditions import HostCounters
from attnbench.measure.loop import MIN_SAMPLES, Loop, OverBudgetError, Timing
from attnbench.measure.nvml import NvmlUnavailableError
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Job, Limits, Roof
from attnbench.schema.outcome import Measured, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.holding import WrongError
from attnbench.workloads.timing import clock_of, measure_time, refuse_impossible, watched

SMALL = Problem(H=2, N=32, D=8, causal=True)
WITHOUT_MODEL = [workload for workload in Workload if not workload.has_model]
OTHER = 1


ROOF = Roof(flops_per_second=1e12, bytes_per_second=1e10, cached_bytes_per_second=1e11)


def job(name: str = "Right", *, seconds: float = 0.05, first_call: float | None = None, **fields: Any) -> Job:
    cell = Cell(method=f"gate_cases:{name}", problem=SMALL, workload=fields.pop("workload", Workload.FORWARD))
    return Job(cell=cell, limits=Limits(seconds=seconds, first_call=first_call), **fields)


def time_of(job: Job) -> Measured:
    measured = measure_time(job)
    assert isinstance(measured, Measured), measured.reason
    return measured


@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_a_row_has_its_samples_and_how_they_came_about(workload: Workload) -> None:
    measured = time_of(job(workload=workload))
    # a CPU that tells its energy has that too
    taken = {name: series for name, series in measured.samples.items() if name != "energy"}
    assert set(taken) == {"time", "warmup", "first_call"}
    assert {series.unit for series in taken.values()} == {"s"}
    assert ("energy" in measured.samples) != ("energy_reason" in measured.facts)
    assert len(measured.samples["first_call"].values) == 1
    assert all(0 < value < 60 for series in taken.values() for value in series.values)
    facts = measured.facts
    assert (facts["clock"], facts["threads"], facts["deterministic"]) == ("wall", 1, False)
    assert facts["stop"] in {"budget", "stable"}
    assert {"warmup_calls", "batch", "load_1min", "steal_percent", "cgroup_throttled", "governor"} <= set(facts)
    assert measured.memory == {}


def test_a_batch_that_was_found_is_a_fact_of_the_row_and_one_that_was_stated_is_not() -> None:
    assert time_of(job(B=3, workload=Workload.DECODE)).facts["B"] == 3
    assert "B" not in time_of(job()).facts


@pytest.mark.parametrize(
    ("samples", "flags"),
    [([0.1] * (MIN_SAMPLES - 1), {"few_samples"}), ([0.1] * MIN_SAMPLES, set()), ([0.1, 0.2] * 10, {"noisy"})],
)
def test_few_samples_and_samples_far_apart_are_flagged(
    monkeypatch: pytest.MonkeyPatch, samples: list[float], flags: set[str]
) -> None:
    monkeypatch.setattr(Loop, "run", lambda self, call, warmup: Timing(0.1, samples=samples))
    assert {"few_samples", "noisy"} & set(time_of(job()).flags) == flags


@pytest.mark.parametrize(("seconds", "joules"), [(1.0, 0.5), (0.2, None)], ids=["long enough", "too short"])
def test_the_energy_of_a_call_is_in_the_row_or_the_reason_why_not(
    monkeypatch: pytest.MonkeyPatch, nvml: Any, seconds: float, joules: float | None
) -> None:
    @contextmanager
    def metered(_: str) -> Iterator[EnergyProbe]:
        yield EnergyProbe(NvmlMeter(nvml, "handle"))

    def run(self: Loop, *_: object) -> Timing:
        self.mark()
        nvml.millijoules += 20_000
        self.mark()
        # one long call of the warm-up, and ten samples of four
        return Timing(0.1, samples=[9.0, *[seconds / 40] * 10], batch=4, early=1, sampling_seconds=seconds)

    monkeypatch.setattr(energy, "metered", metered)
    monkeypatch.setattr(Loop, "run", run)
    measured = time_of(job())
    if joules is None:
        assert "energy" not in measured.samples
        assert "samples were taken for 0.2 s" in str(measured.facts["energy_reason"])
    else:
        assert measured.samples["energy"].values == pytest.approx((joules,))
        assert measured.samples["energy"].unit == "J"
        assert measured.facts["energy_calls"] == 40
        assert measured.facts["energy_timed_share"] == pytest.approx(1.0)


def test_what_else_ran_during_the_first_call_is_not_held_against_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile starts compilers there: all cores are busy with them, and idle from then on."""
    read = (
        HostCounters(total_ticks=ticks, steal_ticks=0, throttled=None, busy_ticks=min(ticks, 100)) for ticks in (0, 100, 200)
    )
    monkeypatch.setattr(HostCounters, "read", lambda: next(read))
    measured = time_of(job())
    assert measured.facts["others_percent"] == 0
    assert "loaded" not in measured.flags


def test_the_given_warm_up_count_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    # on a busy machine a call may take seconds: there is time for all of them, and no more samples than needed
    monkeypatch.setattr("attnbench.measure.loop._MIN_SECONDS", 0.0)
    monkeypatch.setattr("attnbench.measure.loop.stable", lambda values: True)
    measured = time_of(job(seconds=600.0, warmup=3))
    assert measured.facts["warmup_calls"] == 3
    assert len(measured.samples["time"].values) == MIN_SAMPLES


def test_forward_is_timed_without_autograd_and_its_very_first_call_is_observed() -> None:
    calls = registry.load("gate_cases:Watches").__dict__["gradients"]
    calls.clear()
    assert time_of(job("Watches")).facts["backend"] == "written out, 1 call"
    assert len(calls) > 2
    assert not any(calls)


def test_a_first_call_above_its_limit_is_over_budget() -> None:
    with pytest.raises(OverBudgetError, match="one call took"):
        time_of(job(first_call=1e-9))


@pytest.mark.parametrize(
    ("workload", "asked", "mode"),
    [
        ("forward", "default", "default"),
        ("decode", "default", "default"),
        ("decode_total", "default", "wall"),
        ("generate", "default", "wall"),
        ("decode_total", "graph", "graph"),
    ],
)
def test_whole_sequences_are_timed_by_the_host_s_clock_unless_another_is_asked_for(
    workload: str, asked: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[str, str]] = []
    monkeypatch.setattr("attnbench.measure.devices.clock", lambda *how: taken.append(how))
    cell = job().cell.model_copy(update={"workload": Workload(workload), "clock": ClockMode(asked), "device": "cuda:0"})
    clock_of(cell)
    assert taken == [("cuda:0", mode)]


def test_whatever_the_method_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no kernel for this"):
        time_of(job("Stumbles"))


def test_a_wall_clock_that_jumps_reaches_no_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = itertools.cycle([4e9, 0.0, -1e9])
    monkeypatch.setattr("time.time", lambda: next(jumps))
    monkeypatch.setattr("time.time_ns", lambda: int(next(jumps) * 1e9))
    measured = time_of(job())
    assert all(0 < value < 60 for series in measured.samples.values() for value in series.values)


def test_the_state_of_a_gpu_is_recorded_before_and_after(nvml: Any) -> None:
    nvml.processes = [(os.getpid(), 500)]
    with watched("cuda:0") as conditions:
        assert not conditions.facts
    assert conditions.facts["other_processes_before"] == conditions.facts["other_processes_after"] == 0
    assert conditions.facts["sm_clock_mhz_before"] == conditions.facts["sm_clock_mhz_after"] == 1980
    assert conditions.gpu_flags == ()
    with watched("cuda:0") as conditions:
        nvml.processes.append((OTHER, 500))
    assert conditions.flags([1.0])[-1:] == ("shared",), "somebody came in mid-run"


def test_without_nvml_the_run_goes_on_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def library() -> None:
        raise NvmlUnavailableError("NVML: Driver/library version mismatch")

    monkeypatch.setattr("attnbench.measure.nvml.library", library)
    with watched("cuda:0") as conditions:
        pass
    assert conditions.facts["nvml_before"] == conditions.facts["nvml_after"] == "NVML: Driver/library version mismatch"
    assert conditions.gpu_flags == ()


@pytest.mark.cuda
@pytest.mark.parametrize("clock", [ClockMode.COLD, ClockMode.GRAPH, ClockMode.GRAPH_COLD, ClockMode.WALL])
@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_every_clock_of_a_gpu_times_sdpa_forward_and_backward(clock: ClockMode, workload: Workload) -> None:
    problem = Problem(H=2, N=256, D=64, causal=True)
    cell = Cell(method="softmax.sdpa", problem=problem, workload=workload, device="cuda:0", clock=clock)
    measured = measure_time(Job(cell=cell, limits=Limits(seconds=2.0)))
    assert all(0 < value < 60 for value in measured.samples["time"].values)
    assert measured.facts["clock"] in ({"cold", "events"} if clock is ClockMode.COLD else {clock.value})


def limited(flops: float, workload: Workload = Workload.FORWARD, **fields: Any) -> Job:
    cell = Cell(method="m", problem=Problem(N=64, H=1, D=64, **fields), workload=workload, device="cpu")
    return Job(cell=cell, limits=Limits(flops=flops, roof=ROOF))


@pytest.fixture
def measured_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which ceilings were measured again; as they were before."""
    asked: list[str] = []

    def measure(_: str, ceiling: str) -> tuple[float, float, float]:
        asked.append(ceiling)
        return 1e12, 1e10, 1e11

    monkeypatch.setattr(roof, "measure", measure)
    return asked


def test_less_than_half_of_what_products_take_is_impossible(measured_again: list[str]) -> None:
    refuse_impossible(limited(1e9), [0.6e-3])
    assert measured_again == []
    with pytest.raises(WrongError, match=r"^1 GFLOP and 64.0 KiB take 1.00 ms at least$") as error:
        refuse_impossible(limited(1e9), [0.1e-3, 0.4e-3, 0.9e-3])
    assert error.value.status is Status.IMPOSSIBLE
    assert measured_again == ["float32"]


def test_traffic_counts_at_the_speed_of_the_cache(measured_again: list[str]) -> None:
    refuse_impossible(limited(0), [0.4e-6])
    with pytest.raises(WrongError, match="take 655 ns at least"):
        refuse_impossible(limited(0), [0.3e-6])
    assert measured_again == ["float32"]


def test_a_roof_that_is_higher_the_second_time_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "measure", lambda *_: (5e12, 1e10, 1e11))
    refuse_impossible(limited(1e9), [0.4e-3])


def test_in_half_precision_the_roof_of_float32_counts_too(measured_again: list[str]) -> None:
    with pytest.raises(WrongError):
        refuse_impossible(limited(1e9, dtype=DType.BFLOAT16), [0.1e-3])
    assert measured_again == ["bfloat16", "float32", "float32, matmul high"]


def test_without_a_roof_nothing_is_refused() -> None:
    unknown = limited(1e9)
    refuse_impossible(unknown.model_copy(update={"limits": Limits(flops=1e9)}), [1e-9])
