"""The adaptive loop, on a clock and a time that only move when a call says so."""

import gc
import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.measure.clock import Call, Look, WallClock, drop
from attnbench.measure.environment import Facts
from attnbench.measure.loop import MIN_SAMPLES, Loop, OverBudgetError, Timing, stable, steady


@dataclass
class World:
    """A time of its own and the clock that reads it; each call lasts as long as the next duration, the last for ever."""

    durations: Iterable[float]
    min_sample: float = 0.0
    device_seconds: float = 0.0
    """Work that is still queued when a call returns."""
    t: float = 0.0
    calls: int = 0
    samples: list[tuple[int, float]] = field(default_factory=list)
    """What the clock was asked for: calls in the sample, seconds of the sample."""
    label: str = "fake"
    unrolled: int = 1
    flags: tuple[str, ...] = ()
    facts: ClassVar[Facts] = {}

    def __post_init__(self) -> None:
        self._next, self._last = iter(self.durations), 0.0

    def call(self) -> int:
        self._last = next(self._next, self._last)
        self.t += self._last
        self.calls += 1
        return self.calls

    def synchronize(self) -> None:
        self.t += self.device_seconds

    def prepare(self, call: Call) -> Call:
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        start = self.t
        results = [call() for _ in range(batch)]
        look(results[-1])
        self.samples.append((batch, self.t - start))
        return (self.t - start) / batch

    def run(self, seconds: float, warmup_calls: int | None = None, *, call: Call | None = None, **loop: Any) -> Timing:
        return Loop(self, seconds, now=lambda: self.t, **loop).run(call or self.call, warmup_calls)


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """A real collection takes a tenth of a second, and there is one a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda: 0)
        yield


def restless(low: float, high: float) -> Iterable[float]:
    """Ever slower, within bounds far apart: no two windows and no two halves agree."""
    return (low + (high - low) * (1 - 0.98**i) for i in itertools.count())


@pytest.mark.parametrize(("seconds", "sampled"), [(0.001, 0.5), (0.4, 4.0)], ids=["half a second", "ten samples"])
def test_a_quiet_call_stops_as_stable_after_ten_samples_and_half_a_second(seconds: float, sampled: float) -> None:
    timing = World([seconds]).run(15.0)
    assert timing.stop == "stable"
    assert len(timing.samples) >= MIN_SAMPLES
    assert sum(timing.samples) == pytest.approx(sampled, abs=0.0011)


def test_an_unsteady_call_is_sampled_until_the_budget_is_spent() -> None:
    world = World(restless(0.01, 0.1))
    assert world.run(3.0).stop == "budget"
    assert world.t == pytest.approx(3.0, abs=0.11)


@pytest.mark.parametrize(("seconds", "budget"), [(0.9, 1.0), (0.6, 1.5)])
def test_a_call_that_fills_the_share_of_the_warm_up_is_a_sample_already(seconds: float, budget: float) -> None:
    timing = World([seconds]).run(budget)
    assert (timing.stop, len(timing.samples), timing.warmup_calls, timing.warmup) == ("budget", 1, 1, [])


def test_warm_up_ends_when_the_medians_of_two_windows_agree() -> None:
    timing = World([1.0, 0.5, 0.4, 0.3, 0.2, 0.1]).run(15.0)
    # the first call is not a warm-up sample; windows of three agree once six samples hold the same medians
    assert timing.warmup == pytest.approx([0.5, 0.4, 0.3, 0.2, *[0.1] * 5])
    assert timing.warmup_calls == 1 + len(timing.warmup)


@pytest.mark.parametrize(("budget", "share"), [(30.0, 5.0), (9.0, 3.0)])
def test_warm_up_takes_at_most_five_seconds_and_a_third_of_the_budget(budget: float, share: float) -> None:
    timing = World(restless(0.05, 0.5)).run(budget)
    assert sum(timing.warmup) == pytest.approx(share, abs=0.5)
    assert sum(timing.warmup[:-1]) < share


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("min_sample", [0.0, 0.005])
def test_a_given_warm_up_count_is_taken_exactly(count: int, min_sample: float) -> None:
    world = World([0.001], min_sample)
    timing = world.run(15.0, count)
    sampled = sum(batch for batch, _ in world.samples[-len(timing.samples) :])
    assert (timing.warmup_calls, world.calls - sampled) == (count, count)


@pytest.mark.parametrize("durations", [[0.1], [0.1, 4.0], [0.1, 4.0, 0.5]], ids=["short", "one long", "a long one first"])
def test_the_calls_that_were_timed_while_sampling_are_known(durations: list[float]) -> None:
    world = World(durations)
    marks: list[tuple[int, float]] = []
    timing = world.run(9.0, mark=lambda: marks.append((world.calls, world.t)))
    (before, begin), (after, end) = marks
    assert timing.calls == after - before
    assert [timing.timed, timing.sampling_seconds] == pytest.approx([end - begin] * 2)


@pytest.mark.parametrize(
    ("durations", "compiles", "seconds", "calls"),
    [
        ([0.6, 0.7, 0.6, 0.8, 0.1], False, 0.6, 4),
        ([0.1, 0.6, 0.9, 0.7, 0.1], False, 0.6, 4),
        # far above, one more is enough
        ([3.0], False, 3.0, 2),
        ([40.0, 0.6], True, 0.6, 4),
    ],
    ids=["all", "all but the first", "a first one far above", "all after compiling"],
)
def test_over_budget_is_the_fastest_of_three_calls(durations: list[float], compiles: bool, seconds: float, calls: int) -> None:
    world = World(durations)
    with pytest.raises(OverBudgetError, match=rf"one call took {seconds:g} s, above the 0\.5 s that a call may take") as raised:
        world.run(10.0, first_call=0.5, compiles=compiles)
    assert raised.value.seconds == pytest.approx(seconds)
    assert world.calls == calls


@pytest.mark.parametrize("durations", [[0.1, 0.6, 0.1], [0.1, 0.6, 0.6, 0.1], [3.0, 0.1]], ids=["one", "two", "the first"])
def test_slow_calls_among_those_that_keep_to_the_limit_end_nothing(durations: list[float]) -> None:
    assert World(durations).run(10.0, first_call=0.5).samples


@pytest.mark.parametrize(
    ("durations", "budget", "compiles"), [([1.5, 0.01], 1.0, False), ([40.0, 0.1], 10.0, True)], ids=["starts up", "compiles"]
)
def test_starting_up_and_compiling_take_nothing_from_the_budget(durations: list[float], budget: float, compiles: bool) -> None:
    timing = World(durations).run(budget, first_call=0.5, compiles=compiles)
    assert timing.first_call == pytest.approx(durations[0])
    assert timing.stop == "stable"
    assert len(timing.samples) >= MIN_SAMPLES
    assert len(timing.warmup) == 6


def test_the_first_call_lasts_until_the_device_is_done() -> None:
    assert World([0.01], device_seconds=2.7).run(10.0).first_call == pytest.approx(2.71)


@pytest.mark.parametrize("durations", [[0.0002], [0.01, 0.02, 0.0002]], ids=["quick", "a slow second call"])
def test_calls_are_batched_until_a_sample_lasts_its_least_time(durations: list[float]) -> None:
    world = World(durations, min_sample=0.005)
    timing = world.run(3.0)
    assert 25 <= timing.batch <= 26
    assert all(seconds >= 0.005 * (1 - 1e-9) for _, seconds in world.samples[-len(timing.samples) :])


@settings(max_examples=100, deadline=None)
@given(
    budget=st.floats(0.05, 30.0),
    share=st.floats(5e-3, 0.33),
    noise=st.lists(st.floats(1.0, 2.0), min_size=1, max_size=20),
    count=st.none() | st.integers(1, 200),
    min_sample=st.sampled_from([0.0, 0.005]),
)
def test_the_budget_is_never_exceeded_by_more_than_one_sample(
    budget: float, share: float, noise: list[float], count: int | None, min_sample: float
) -> None:
    world = World((share * budget * factor for factor in itertools.cycle(noise)), min_sample)
    assert world.run(budget, count).samples
    longest = max(seconds for _, seconds in world.samples)
    assert world.t <= (budget + longest) * (1 + 1e-9)


@pytest.mark.parametrize("last", [0, 4], ids=["to the end", "to an exception"])
def test_garbage_is_not_collected_during_a_call_and_is_again_afterwards(last: int) -> None:
    world = World([0.001])
    seen: list[bool] = []

    def call() -> None:
        seen.append(gc.isenabled())
        world.call()
        if world.calls == last:
            raise RuntimeError

    with suppress(RuntimeError):
        world.run(1.0, call=call)
    assert not any(seen[1:])
    assert gc.isenabled()


def test_a_wall_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = itertools.cycle([1e9, 0.0, 2e9, -5e8])
    monkeypatch.setattr("time.time", lambda: next(jumps))
    monkeypatch.setattr("time.time_ns", lambda: int(next(jumps) * 1e9))
    timing = Loop(WallClock(), 0.03).run(lambda: sum(range(100)))
    seconds = [timing.first_call, *timing.warmup, *timing.samples]
    assert all(0 < s < 60 for s in seconds)
    assert timing.warmup_calls > 1


def test_two_windows_are_steady_when_their_medians_agree_within_one_percent() -> None:
    assert steady([1.0] * 6)
    assert not steady([1.0] * 5), "two windows have six samples"
    assert not steady([1.0, 1.0, 1.0, 1.02, 1.02, 1.02])
    assert steady([9.0, 9.0, 1.0, 1.0, 9.0, 1.0, 1.0]), "one outlier a window moves no median"


def test_samples_are_stable_when_narrow_or_when_the_median_has_stopped_moving() -> None:
    narrow, wide_but_settled = [1.0, 1.001, 1.002] * 4, [1.0, 2.0, 3.0] * 8
    drifting = [math.exp(0.1 * i) for i in range(12)]
    assert [stable(samples) for samples in (narrow, wide_but_settled, drifting)] == [True, True, False]


def test_what_samples_gave_is_looked_at_and_what_warm_up_gave_is_not() -> None:
    world, seen = World([0.1]), list[object]()
    timing = world.run(15.0, look=seen.append)
    assert len(seen) == len(timing.samples)
    assert seen == list(range(world.calls - len(seen) + 1, world.calls + 1))


def test_a_budget_has_room_for_the_calls_that_come_after() -> None:
    there, not_there = (World([1.0]).run(8.5, 2, reserve=reserve) for reserve in (1, 0))
    assert (len(there.samples), len(not_there.samples)) == (5, 6)
