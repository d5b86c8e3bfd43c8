"""The time pass of a real, small method: a row, its conditions, the share of choosing, and which times are not believed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from attnbench.measure import devices, energy, roof
from attnbench.measure.clock import Call, GraphClock, Look, WallClock, drop
from attnbench.measure.energy import EnergyProbe, NvmlMeter
from attnbench.measure.host_conditions import HostCounters
from attnbench.measure.loop import MIN_SAMPLES, Loop, OverBudgetError, Timing
from attnbench.measure.nvml import NvmlUnavailableError
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Job, Limits, Roof
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import SELECTION_SHARE, Measured, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.describe import why_not
from attnbench.workloads.holding import WrongError
from attnbench.workloads.selection import selection
from attnbench.workloads.setting import whole
from attnbench.workloads.timing import clock_of, measure_time, refuse_impossible, watched
from tests.workloads.conftest import WITHOUT_MODEL, measured

COSTS = {"choose": 1.0, "forward": 3.0}
"""What each thing costs that an attention notes, on a clock that counts."""


def cell_of(name: str = "Right", workload: Workload = Workload.FORWARD, **fields: Any) -> Cell:
    return Cell(method=f"gate_cases:{name}", problem=Problem(H=2, N=32, D=8, causal=True), workload=workload, **fields)


def row(cell: Cell | None = None, *, seconds: float = 0.05, first_call: float | None = None, **fields: Any) -> Measured:
    limits = Limits(seconds=seconds, first_call=first_call)
    return measured(measure_time(Job(cell=cell or cell_of(), limits=limits, **fields)))


@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_a_row_has_its_samples_and_how_they_came_about(workload: Workload) -> None:
    found = row(cell_of(workload=workload))
    # a CPU that tells its energy has that too
    taken = {name: series for name, series in found.samples.items() if name != "energy"}
    assert set(taken) == {"time", "warmup", "first_call"}
    assert {series.unit for series in taken.values()} == {"s"}
    assert ("energy" in found.samples) != ("energy_reason" in found.facts)
    assert len(found.samples["first_call"].values) == 1
    assert all(0 < value < 60 for series in taken.values() for value in series.values)
    facts = found.facts
    assert (facts["clock"], facts["threads"], facts["deterministic"]) == ("wall", 1, False)
    assert facts["stop"] in {"budget", "stable"}
    assert {"warmup_calls", "batch", "load_1min", "steal_percent", "cgroup_throttled", "governor"} <= set(facts)
    assert found.memory == {}


def test_a_batch_that_was_found_is_a_fact_of_the_row_and_one_that_was_stated_is_not() -> None:
    assert row(cell_of(workload=Workload.DECODE), B=3).facts["B"] == 3
    assert "B" not in row().facts


@pytest.mark.parametrize(
    ("samples", "flags"),
    [([0.1] * (MIN_SAMPLES - 1), {"few_samples"}), ([0.1] * MIN_SAMPLES, set()), ([0.1, 0.2] * 10, {"noisy"})],
)
def test_few_samples_and_those_far_apart_are_flagged_after_as_many_warm_up_calls_as_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, samples: list[float], flags: set[str]
) -> None:
    asked: list[int | None] = []

    def run(self: Loop, call: Call, warmup: int | None) -> Timing:
        asked.append(warmup)
        return Timing(0.1, samples=samples)

    monkeypatch.setattr(Loop, "run", run)
    assert {"few_samples", "noisy"} & set(row(warmup=3).flags) == flags
    assert asked == [3]


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
    found = row()
    if joules is None:
        assert "energy" not in found.samples
        assert "samples were taken for 0.2 s" in str(found.facts["energy_reason"])
    else:
        assert found.samples["energy"].values == pytest.approx((joules,))
        assert found.samples["energy"].unit == "J"
        assert found.facts["energy_calls"] == 40
        assert found.facts["energy_timed_share"] == pytest.approx(1.0)


def test_what_else_ran_during_the_first_call_is_not_held_against_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile starts compilers there: all cores are busy with them, and idle from then on."""
    read = (
        HostCounters(total_ticks=ticks, steal_ticks=0, throttled=None, busy_ticks=min(ticks, 100)) for ticks in (0, 100, 200)
    )
    monkeypatch.setattr(HostCounters, "read", lambda: next(read))
    found = row()
    assert found.facts["others_percent"] == 0
    assert "loaded" not in found.flags


def test_forward_is_timed_without_autograd_and_its_very_first_call_is_observed(noted: list[bool]) -> None:
    assert row(cell_of("Watches")).facts["backend"] == "written out, 1 call"
    assert len(noted) > 2
    assert not any(noted)


def test_a_first_call_above_its_limit_is_over_budget() -> None:
    with pytest.raises(OverBudgetError, match="one call took"):
        row(first_call=1e-9)


@pytest.mark.parametrize(
    ("workload", "asked", "mode"),
    [
        ("forward", "default", "default"),
        ("decode_total", "default", "wall"),
        ("generate", "default", "wall"),
        ("decode_total", "graph", "graph"),
        ("decode", "graph", "graph"),
    ],
)
def test_whole_sequences_are_timed_by_the_host_s_clock_and_a_graph_holds_one_step(
    workload: str, asked: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock(return_value=object.__new__(GraphClock))
    monkeypatch.setattr(devices, "clock", made)
    changes = {"workload": Workload(workload), "clock": ClockMode(asked), "device": "cuda:0"}
    clock = clock_of(cell_of().model_copy(update=changes))
    made.assert_called_once_with("cuda:0", mode)
    assert isinstance(clock, GraphClock)
    assert clock.most_unrolled == (1 if "decode" in workload else 64)


def test_the_state_of_a_gpu_is_recorded_before_and_after_with_who_came_in_between_or_why_not(
    nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.processes = [(os.getpid(), 500)]
    with watched("cuda:0") as conditions:
        assert not conditions.facts
    assert conditions.facts["other_processes_before"] == conditions.facts["other_processes_after"] == 0
    assert conditions.facts["sm_clock_mhz_before"] == conditions.facts["sm_clock_mhz_after"] == 1980
    assert conditions.gpu_flags == ()
    with watched("cuda:0") as conditions:
        nvml.processes.append((1, 500))
    assert conditions.flags([1.0])[-1:] == ("shared",)
    mismatch = Mock(side_effect=NvmlUnavailableError("NVML: Driver/library version mismatch"))
    monkeypatch.setattr("attnbench.measure.nvml.library", mismatch)
    with watched("cuda:0") as conditions:
        pass
    assert conditions.facts["nvml_before"] == conditions.facts["nvml_after"] == "NVML: Driver/library version mismatch"
    assert conditions.gpu_flags == ()


@pytest.mark.cuda
@pytest.mark.parametrize("clock", [ClockMode.COLD, ClockMode.GRAPH, ClockMode.GRAPH_COLD, ClockMode.WALL])
@pytest.mark.parametrize("workload", WITHOUT_MODEL)
@pytest.mark.parametrize("name", ["softmax.sdpa", "linear.chunked"])
def test_every_clock_of_a_gpu_times_whatever_it_can(clock: ClockMode, workload: Workload, name: str) -> None:
    problem = Problem(H=2, N=256, D=64, causal=True)
    cell = Cell(method=name, problem=problem, workload=workload, device="cuda:0", clock=clock)
    if not why_not(cell):
        found = row(cell, seconds=2.0)
        assert all(0 < value < 60 for value in found.samples["time"].values)
        assert found.facts["clock"] in ({"cold", "events"} if clock is ClockMode.COLD else {clock.value})


def limited(flops: float, **fields: Any) -> Job:
    cell = Cell(method="m", problem=Problem(N=64, H=1, D=64, **fields), workload=Workload.FORWARD, device="cpu")
    known = Roof(flops_per_second=1e12, bytes_per_second=1e10, cached_bytes_per_second=1e11)
    return Job(cell=cell, limits=Limits(flops=flops, roof=known))


def test_less_than_half_of_what_products_or_traffic_in_cache_take_is_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[str] = []

    def measure(_: str, ceiling: str) -> tuple[float, float, float]:
        again.append(ceiling)
        return 1e12, 1e10, 1e11

    monkeypatch.setattr(roof, "measure", measure)
    refuse_impossible(limited(1e9), [0.6e-3])
    refuse_impossible(limited(0), [0.4e-6])
    assert again == []
    with pytest.raises(WrongError, match=r"^1 GFLOP and 64.0 KiB take 1.00 ms at least$") as error:
        refuse_impossible(limited(1e9), [0.1e-3, 0.4e-3, 0.9e-3])
    assert error.value.status is Status.IMPOSSIBLE
    with pytest.raises(WrongError, match="take 655 ns at least"):
        refuse_impossible(limited(0), [0.3e-6])
    assert again == ["float32", "float32"], "the roof is measured again before anything is refused"
    # in half precision the roof of float32 counts too
    with pytest.raises(WrongError):
        refuse_impossible(limited(1e9, dtype=DType.BFLOAT16), [0.1e-3])
    assert again[2:] == ["bfloat16", "float32", "float32, matmul high"]


def test_nothing_is_refused_where_the_roof_is_higher_the_second_time_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "measure", lambda *_: (5e12, 1e10, 1e11))
    refuse_impossible(limited(1e9), [0.4e-3])
    refuse_impossible(limited(1e9).model_copy(update={"limits": Limits(flops=1e9)}), [1e-9])


class CountingClock(WallClock):
    """Says that a call took what the things cost that the method noted in it."""

    min_sample = 0.0

    def __init__(self, noted: list[str]) -> None:
        super().__init__()
        self.noted = noted

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        begin = len(self.noted)
        for _ in range(batch):
            result = call()
        seconds = sum(COSTS[each] for each in self.noted[begin:]) / batch
        look(result)
        return seconds


def selection_of(name: str, noted: list[str], *, limit: float = 60.0, **fields: Any) -> tuple[float | None, Facts]:
    setting = whole(cell_of(name, **fields), 0)
    # a backward alone is of one forward that was made already
    noted.clear()
    return selection(setting, CountingClock(noted), 4.0, limit)


def test_the_share_is_the_choice_over_the_whole_forward_also_of_one_round(noted: list[str]) -> None:
    for limit in (60.0, 0.0):
        share, facts = selection_of("Selects", noted, limit=limit)
        assert share == pytest.approx(0.25)
        assert facts == {"selection_and_rest": pytest.approx(1.0)}
    # made once, given to a forward, and then each of the three
    assert (noted.count("choose"), noted.count("forward")) == (3, 3)


COMPILED = {"selection_reason": "what is compiled chooses within its graph, and not by itself"}


@pytest.mark.parametrize(
    ("name", "workload", "facts"),
    [
        ("Right", Workload.FORWARD, {}),
        ("ChoosesNothing", Workload.FORWARD, {}),
        ("SelectsCompiled", Workload.FORWARD, COMPILED),
        *(("Selects", workload, {}) for workload in WITHOUT_MODEL if workload is not Workload.FORWARD),
    ],
)
def test_without_choices_there_is_no_share_and_no_further_call(
    name: str, workload: Workload, facts: Facts, noted: list[str]
) -> None:
    assert selection_of(name, noted, workload=workload) == (None, facts)
    assert "forward" not in noted


def test_a_choice_that_is_not_what_the_forward_does_or_fails_by_itself_has_a_reason(noted: list[str]) -> None:
    share, facts = selection_of("AttendsToChoose", noted)
    assert share is None
    assert facts["selection_and_rest"] == pytest.approx(1.75)
    assert "take 175% of a whole forward together" in str(facts["selection_reason"])
    words = "the choice cannot be timed by itself: RuntimeError: out of memory for all choices"
    assert selection_of("CannotChoose", noted) == (None, {"selection_reason": words})


def test_the_share_stands_in_the_row_and_of_a_graph_it_is_taken_by_the_host_s_clock(
    noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = row()
    assert SELECTION_SHARE not in right.samples
    assert not [fact for fact in right.facts if fact.startswith("selection")]
    clock = Mock(side_effect=lambda *_: CountingClock(noted))
    monkeypatch.setattr(devices, "clock", clock)
    found = row(cell_of("Selects"))
    assert set(found.samples["time"].values) == {4.0}, "choosing by itself is no part of a sample"
    assert found.samples[SELECTION_SHARE].values == pytest.approx((0.25,))
    assert found.samples[SELECTION_SHARE].unit == "1"
    clock.reset_mock()
    assert selection_of("Selects", noted, clock=ClockMode.GRAPH)[0] == pytest.approx(0.25)
    clock.assert_called_once_with("cpu", "wall")
