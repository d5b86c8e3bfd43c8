"""The time pass of a real, small method: what a row holds, and what is said of the conditions."""

import itertools
import os
from typing import Any

import pytest

from attnbench import registry
from attnbench.measure.loop import MIN_SAMPLES, Loop, OverBudgetError, Timing
from attnbench.measure.nvml import NvmlUnavailableError
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.outcome import Measured
from attnbench.schema.problem import Problem
from attnbench.workloads.timing import clock_of, measure_time, watched

SMALL = Problem(H=2, N=32, D=8, causal=True)
WITHOUT_MODEL = [workload for workload in Workload if not workload.has_model]
OTHER = 1


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
    assert set(measured.samples) == {"time", "warmup", "first_call"}
    assert {series.unit for series in measured.samples.values()} == {"s"}
    assert len(measured.samples["first_call"].values) == 1
    assert all(0 < value < 60 for series in measured.samples.values() for value in series.values)
    facts = measured.facts
    assert (facts["clock"], facts["threads"], facts["deterministic"]) == ("wall", 1, False)
    assert facts["stop"] in {"budget", "stable"}
    assert {"warmup_calls", "batch", "load_1min", "steal_percent", "cgroup_throttled", "governor"} <= set(facts)
    assert measured.memory == {}


def test_a_batch_that_was_found_is_a_fact_of_the_row_and_one_that_was_stated_is_not() -> None:
    assert time_of(job(B=3, workload=Workload.DECODE)).facts["B"] == 3
    assert "B" not in time_of(job()).facts


def test_a_tiny_budget_is_flagged_for_its_few_samples() -> None:
    measured = time_of(job(seconds=0.015))
    assert 1 <= len(measured.samples["time"].values) < MIN_SAMPLES
    assert "few_samples" in measured.flags


@pytest.mark.parametrize(("count", "few"), [(MIN_SAMPLES - 1, True), (MIN_SAMPLES, False)])
def test_fewer_than_ten_samples_are_flagged(monkeypatch: pytest.MonkeyPatch, count: int, few: bool) -> None:
    monkeypatch.setattr(Loop, "run", lambda self, call, warmup: Timing(0.1, samples=[0.1] * count))
    assert ("few_samples" in time_of(job()).flags) is few


def test_samples_far_apart_are_flagged_as_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "run", lambda self, call, warmup: Timing(0.1, samples=[0.1, 0.2] * 10))
    assert "noisy" in time_of(job()).flags


def test_the_given_warm_up_count_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    # on a busy machine a call may take seconds: there is time for all of them, and no more samples than needed
    monkeypatch.setattr("attnbench.measure.loop._MIN_SECONDS", 0.0)
    monkeypatch.setattr("attnbench.measure.loop.stable", lambda values: True)
    measured = time_of(job(seconds=600.0, warmup=3))
    assert measured.facts["warmup_calls"] == 3
    assert len(measured.samples["time"].values) == MIN_SAMPLES


def test_forward_is_timed_without_autograd() -> None:
    calls = registry.load("gate_cases:Watches").__dict__["gradients"]
    calls.clear()
    time_of(job("Watches"))
    assert len(calls) > 2
    assert not any(calls)


def test_the_method_observes_its_very_first_call_only() -> None:
    assert time_of(job("Watches")).facts["backend"] == "written out, 1 call"


def test_a_first_call_above_its_limit_is_over_budget() -> None:
    with pytest.raises(OverBudgetError, match="one call took"):
        time_of(job(first_call=1e-9))


def test_a_cpu_refuses_a_cold_clock_in_words() -> None:
    asked = job()
    cold = asked.model_copy(update={"cell": asked.cell.model_copy(update={"clock": ClockMode.COLD})})
    with pytest.raises(ValueError, match="a CPU has no 'cold' clock"):
        measure_time(cold)


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


def test_a_row_survives_json() -> None:
    measured = time_of(job())
    assert Measured.model_validate_json(measured.model_dump_json()) == measured


def test_the_state_of_a_gpu_is_recorded_before_and_after(nvml: Any) -> None:
    nvml.processes = [os.getpid()]
    with watched("cuda:0") as conditions:
        assert not conditions.facts
    assert conditions.facts["other_processes_before"] == conditions.facts["other_processes_after"] == 0
    assert conditions.facts["sm_clock_mhz_before"] is None
    assert conditions.gpu_flags == ()


def test_somebody_who_comes_to_the_gpu_in_mid_run_makes_the_row_shared(nvml: Any) -> None:
    nvml.processes = [os.getpid()]
    with watched("cuda:0") as conditions:
        nvml.processes.append(OTHER)
    assert conditions.flags([1.0])[-1:] == ("shared",)


def test_without_nvml_the_run_goes_on_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def library() -> None:
        raise NvmlUnavailableError("NVML: Driver/library version mismatch")

    monkeypatch.setattr("attnbench.measure.nvml.library", library)
    with watched("cuda:0") as conditions:
        pass
    assert conditions.facts["nvml_before"] == conditions.facts["nvml_after"] == "NVML: Driver/library version mismatch"
    assert conditions.gpu_flags == ()


@pytest.mark.cuda
@pytest.mark.parametrize("clock", [ClockMode.COLD, ClockMode.GRAPH, ClockMode.WALL])
@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_every_clock_of_a_gpu_times_sdpa_forward_and_backward(clock: ClockMode, workload: Workload) -> None:
    problem = Problem(H=2, N=256, D=64, causal=True)
    cell = Cell(method="softmax.sdpa", problem=problem, workload=workload, device="cuda:0", clock=clock)
    measured = measure_time(Job(cell=cell, limits=Limits(seconds=2.0)))
    assert all(0 < value < 60 for value in measured.samples["time"].values)
    assert measured.facts["clock"] in ({"cold", "events"} if clock is ClockMode.COLD else {clock.value})
