"""The share of a forward that goes into choosing: by a clock that counts what a method does, and once by the host's."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor

from attnbench import registry
from attnbench.measure import devices
from attnbench.measure.clock import Call, Look, WallClock, drop
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import SELECTION_SHARE, Measured
from attnbench.schema.problem import Problem
from attnbench.workloads.selection import selection
from attnbench.workloads.setting import Setting, whole
from attnbench.workloads.timing import measure_time

COSTS = {"choice": 1.0, "attention": 3.0}


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


@pytest.fixture
def noted() -> Iterator[list[str]]:
    """What the fixture attentions did, in order."""
    found: list[str] = registry.load("gate_cases:Selects").__dict__["noted"]
    found.clear()
    yield found
    found.clear()


def cell_of(name: str, **fields: Any) -> Cell:
    return Cell(method=f"gate_cases:{name}", problem=Problem(H=2, N=16, D=8, causal=True), **fields)


def selection_of(name: str, noted: list[str], *, limit: float = 60.0, **fields: Any) -> tuple[float | None, Facts]:
    setting: Setting = whole(cell_of(name, **fields), 0)
    # a backward alone is of one forward that was made already
    noted.clear()
    return selection(setting, CountingClock(noted), 4.0, limit)


def test_the_share_is_the_choice_over_the_whole_forward(noted: list[str]) -> None:
    share, facts = selection_of("Selects", noted)
    assert share == pytest.approx(0.25)
    assert facts == {"selection_and_rest": pytest.approx(1.0)}


def test_a_choice_that_sleeps_is_most_of_a_forward(noted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    choose = registry.load("gate_cases:Selects").choose

    def sleeping(self: Any, *inputs: Tensor) -> Tensor | None:
        time.sleep(0.03)
        return choose(self, *inputs)

    monkeypatch.setattr("gate_cases.Selects.choose", sleeping)
    share, _ = selection(whole(cell_of("Selects"), 0), WallClock(), 0.03, limit=60.0)
    assert share is not None
    assert share > 0.3


@pytest.mark.parametrize("name", ["Right", "ChoosesNothing"])
def test_a_method_without_choices_has_no_share_and_is_not_called_again(name: str, noted: list[str]) -> None:
    assert selection_of(name, noted) == (None, {})
    assert "attention" not in noted


@pytest.mark.parametrize("workload", [each for each in Workload if each is not Workload.FORWARD and not each.has_model])
def test_other_workloads_than_forward_have_none(workload: Workload, noted: list[str]) -> None:
    assert selection_of("Selects", noted, workload=workload) == (None, {})
    assert noted == []


def test_a_choice_that_is_not_what_the_forward_does_has_a_reason(noted: list[str]) -> None:
    share, facts = selection_of("AttendsToChoose", noted)
    assert share is None
    assert facts["selection_and_rest"] == pytest.approx(1.75)
    assert "take 175% of a whole forward together" in str(facts["selection_reason"])


def test_a_choice_that_fails_by_itself_has_a_reason(noted: list[str]) -> None:
    share, facts = selection_of("CannotChoose", noted)
    assert share is None
    words = "the choice cannot be timed by itself: RuntimeError: out of memory for all choices"
    assert facts == {"selection_reason": words}


def test_what_is_compiled_is_not_compiled_once_more(noted: list[str]) -> None:
    found = selection_of("SelectsCompiled", noted)
    assert found == (None, {"selection_reason": "what is compiled chooses within its graph, and not by itself"})
    assert "attention" not in noted


def test_of_slow_calls_there_is_one_round(noted: list[str]) -> None:
    assert selection_of("Selects", noted, limit=0.0)[0] == pytest.approx(0.25)
    # made once, given to a forward, and then each of the three
    assert noted.count("choice") == 3
    assert noted.count("attention") == 3


def test_a_cell_that_is_timed_by_a_graph_chooses_by_the_host_s_clock(noted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def clock(*how: str) -> CountingClock:
        asked.append((how[0], how[1]))
        return CountingClock(noted)

    monkeypatch.setattr(devices, "clock", clock)
    assert selection_of("Selects", noted, clock=ClockMode.GRAPH)[0] == pytest.approx(0.25)
    assert asked == [("cpu", "wall")]


@pytest.mark.parametrize(("name", "share"), [("Selects", 0.25), ("Right", None)])
def test_it_stands_in_the_row_beside_the_time(
    name: str, share: float | None, noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "clock", lambda *_: CountingClock(noted) if share else WallClock())
    measured = measure_time(Job(cell=cell_of(name), limits=Limits(seconds=0.05)))
    assert isinstance(measured, Measured), measured.reason
    if share is None:
        assert SELECTION_SHARE not in measured.samples
        assert not [fact for fact in measured.facts if fact.startswith("selection")]
    else:
        assert set(measured.samples["time"].values) == {4.0}, "choosing by itself is no part of a sample"
        assert measured.samples[SELECTION_SHARE].values == pytest.approx((share,))
        assert measured.samples[SELECTION_SHARE].unit == "1"
