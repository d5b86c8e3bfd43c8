"""Which seconds a round is made of, and how often a method is checked."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.measure.clock import drop
from attnbench.pytest_plugin.fixture import AttentionBenchmark
from attnbench.pytest_plugin.session import Session, Timer
from attnbench.workloads.check import check

QUICK = pytest.mark.benchmark(max_time=0.02, min_rounds=3)
SMALL: dict[str, Any] = {"N": 128, "H": 2, "D": 16, "device": "cpu"}
Make = Callable[[], AttentionBenchmark]


@QUICK
def test_each_kind_of_cell_is_checked_once_a_session(enabled: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def spy(job: Any) -> Any:
        checked.append(f"{job.cell.label} {job.cell.problem.dtype.value} {job.cell.problem.causal}")
        return check(job)

    monkeypatch.setattr("attnbench.pytest_plugin.fixture.check", spy)
    for given in ({}, {"N": 192}, {"dtype": "float64"}, {"causal": True}, {"chunk": 8}, {}):
        enabled()("plain:WithParameter", **{**SMALL, **given})
    # on a short sequence and on a long one
    assert checked[::2] == checked[1::2]
    assert checked[::2] == [
        "plain:WithParameter float32 False",
        "plain:WithParameter float64 False",
        "plain:WithParameter float32 True",
        "plain:WithParameter(chunk=8) float32 False",
    ]


@QUICK
def test_a_class_of_the_same_name_is_checked_anew(enabled: Make) -> None:
    def make(error: float) -> type[Attention]:
        from plain import Plain

        class Same(Plain):
            def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                return super().forward(q, k, v) * (1 + error)

        return Same

    enabled()(make(0.0), **SMALL)
    with pytest.raises(pytest.fail.Exception, match="incorrect"):
        enabled()(make(0.01), **SMALL)


class DeviceClock:
    """A device on which every call takes two milliseconds of its own, whatever the host needs."""

    label = "cold"
    flags = ("gaps",)
    unrolled = 1

    def __init__(self, min_sample: float) -> None:
        self.min_sample, self.batches = min_sample, list[int]()

    def synchronize(self) -> None:
        return

    def prepare(self, call: Callable[[], object]) -> Callable[[], object]:
        return call

    def sample(self, call: Callable[[], object], batch: int, look: Callable[[object], None] = drop) -> float:
        self.batches.append(batch)
        look(call())
        return 0.002


@QUICK
@pytest.mark.parametrize(("min_sample", "batch"), [(0.0, 1), (0.009, 5)])
def test_rounds_are_the_device_s_own_seconds(
    enabled: Make, monkeypatch: pytest.MonkeyPatch, min_sample: float, batch: int
) -> None:
    clock, made = DeviceClock(min_sample), enabled()
    monkeypatch.setattr("attnbench.measure.devices.clock", lambda device, mode: clock)
    output = made("plain:Plain", **SMALL)
    assert isinstance(output, Tensor)
    taken = made.benchmark.stats
    assert taken is not None
    assert taken.stats.data == pytest.approx([0.002] * len(taken.stats.data))
    assert len(taken.stats.data) >= 3
    assert batch in clock.batches[1:]
    assert (taken.as_dict()["options"]["timer"], made.benchmark.extra_info["clock"]) == ("cold", "cold")


def test_host_time_waits_for_the_device() -> None:
    order: list[str] = []

    def read() -> float:
        order.append("read")
        return 1.0

    assert Timer(read, wait=lambda: order.append("wait"))() == 1.0
    assert order == ["wait", "read"]


@QUICK
def test_a_benchmark_with_another_timer_is_refused(enabled: Make) -> None:
    made = enabled()
    made.timer = Timer(time.perf_counter)
    with pytest.raises(RuntimeError, match="ask for attention_benchmark before benchmark"):
        made("plain:Plain", **SMALL)
    assert made.benchmark.has_error


@pytest.mark.benchmark(group="mine", timer=time.process_time)
def test_what_the_mark_says_stays(session: Session, attention_benchmark: AttentionBenchmark) -> None:
    attention_benchmark("plain:Plain", **SMALL)
    assert attention_benchmark.benchmark.group == "mine"
    assert attention_benchmark.timer.host is time.process_time


@QUICK
def test_a_call_is_timed_as_the_workload_has_it(enabled: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from plain import Plain

    seen = set()

    def forward(self: Plain, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.add((self.problem.N, torch.is_grad_enabled()))
        return Plain.forward(self, q, k, v)

    monkeypatch.setattr("plain.Marked.forward", forward, raising=False)
    enabled()("plain:Marked", **SMALL)
    enabled()("plain:Marked", **{**SMALL, "N": 192}, workload="forward_backward")
    assert {(128, False), (192, True)} <= seen
    assert not {(128, True), (192, False)} & seen
