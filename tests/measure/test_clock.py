"""What one sample of each clock spans, on stubs that write down the order of operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from attnbench.measure import clock as clocks
from attnbench.measure.clock import CacheFlush, Clock, ColdClock, ColdGraphClock, GraphClock, WallClock


@dataclass
class Event:
    """A CUDA event of the stub; both its times are the stub's own."""

    gpu: "Gpu"
    name: str
    at: float = 0.0

    def query(self) -> bool:
        return self.gpu.late or self.gpu.held / 2e9 < self.gpu.needed

    def record(self) -> None:
        self.at = self.gpu.milliseconds
        self.gpu.log.append(self.name)

    def synchronize(self) -> None:
        self.gpu.log.append(f"wait for {self.name}")

    def elapsed_time(self, end: "Event") -> float:
        return end.at - self.at


@dataclass
class Gpu:
    """torch.cuda as the clocks use it: everything is logged, time passes only in calls and copies."""

    cold_ms: float = 3.0
    warm_ms: float = 1.0
    log: list[str] = field(default_factory=list)
    milliseconds: float = 0.0
    current: str = "main"
    events: int = 0
    late: bool = False
    """Whether the stream is let go before the host has queued all."""
    needed: float = 0.0
    """The seconds for which it must be held, so that the host can queue all."""
    mhz: float = 2000.0
    captured: int = 1
    calls: int = 0

    def since_idle(self) -> list[str]:
        idle = len(self.log) - self.log[::-1].index("synchronize") if "synchronize" in self.log else 0
        return self.log[idle:]

    def work(self, name: str = "call") -> None:
        """A kernel: slower when the cache was flushed since the device was last idle."""
        self.milliseconds += self.cold_ms if "flush" in self.since_idle() else self.warm_ms
        self.log.append(f"{name} on {self.current}")

    def counted(self) -> int:
        """A call that gives its own number."""
        self.calls += 1
        self.work()
        return self.calls

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802 - torch's name
        assert enable_timing
        self.events += 1
        return Event(self, "event")

    def synchronize(self, device: str) -> None:
        assert device == "cuda:0"
        self.log.append("synchronize")

    def _sleep(self, cycles: int) -> None:
        assert cycles > 0
        self.held = cycles
        self.milliseconds += cycles / self.mhz / 1e3
        self.log.append("hold")

    def Stream(self, device: str) -> SimpleNamespace:  # noqa: N802 - torch's name
        return SimpleNamespace(name="side", wait_stream=lambda other: self.log.append(f"side waits for {other.name}"))

    def current_stream(self, device: str) -> SimpleNamespace:
        return SimpleNamespace(name=self.current)

    def set_stream(self, stream: SimpleNamespace) -> None:
        self.current = stream.name

    def CUDAGraph(self) -> SimpleNamespace:  # noqa: N802 - torch's name

        def replay() -> None:
            for _ in range(self.captured):
                self.work("replay")

        return SimpleNamespace(replay=replay)

    @contextmanager
    def graph(self, graph: SimpleNamespace, stream: SimpleNamespace) -> Iterator[None]:
        # the default stream takes no part in a capture
        assert stream.name == self.current == "side"
        self.current, before = "capture", len(self.log)
        yield
        self.current, self.captured = "side", len(self.log) - before

    def get_device_properties(self, device: str) -> SimpleNamespace:
        return SimpleNamespace(L2_cache_size=4096)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A stub whose self-test copies take its cold and warm times."""
    made = Gpu()

    class Flush:
        def __init__(self, device: str, cuda: object) -> None:
            self.buffer = torch.empty(64, dtype=torch.int32)

        def __call__(self) -> None:
            made.log.append("flush")

    copies = torch.Tensor.copy_

    def copy_(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        made.work("copy")
        return copies(self, source)

    monkeypatch.setattr(clocks, "CacheFlush", Flush)
    monkeypatch.setattr(torch.Tensor, "copy_", copy_)
    return made


@pytest.fixture
def host_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's nanoseconds, moved by hand."""
    now = [0]
    monkeypatch.setattr(clocks, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(clocks, "perf_counter", lambda: now[0] / 1e9)
    return now


def test_the_wall_clock_gives_seconds_per_call(host_ns: list[int]) -> None:
    def last(nanoseconds: int) -> Callable[[], None]:
        def call() -> None:
            host_ns[0] += nanoseconds

        return call

    short, long = (WallClock().sample(last(n), batch=10) for n in (1_000, 4_000))
    assert short == pytest.approx(1e-6)
    assert long == pytest.approx(4 * short)


def test_the_wall_clock_waits_for_the_device_before_and_after(host_ns: list[int]) -> None:
    log: list[str] = []

    def synchronize() -> None:
        log.append("synchronize")
        host_ns[0] += 1000

    seconds = WallClock(synchronize).sample(lambda: log.append("call"), batch=2)
    assert log == ["synchronize", "call", "call", "synchronize"]
    # only the second wait belongs to the calls
    assert seconds == pytest.approx(0.5e-6)


def test_the_wall_clock_prepares_nothing() -> None:
    def call() -> None:
        raise AssertionError

    assert WallClock().prepare(call) is call


def test_a_jump_of_the_wall_time_does_not_reach_the_wall_clock(host_ns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: -1e9)
    monkeypatch.setattr("time.time_ns", lambda: -(10**18))
    assert WallClock().sample(lambda: host_ns.__setitem__(0, host_ns[0] + 500), batch=1) == pytest.approx(5e-7)


def test_a_cold_sample_flushes_holds_the_stream_and_times_only_the_call(gpu: Gpu) -> None:
    clock = ColdClock("cuda:0", gpu)
    gpu.log.clear()
    assert clock.sample(gpu.work, batch=1) == pytest.approx(0.003)
    assert gpu.log == ["flush", "event", "hold", "event", "call on main", "event", "wait for event", "synchronize"]


def test_each_call_of_a_cold_batch_is_flushed_on_its_own(gpu: Gpu) -> None:
    clock = ColdClock("cuda:0", gpu)
    gpu.log.clear()
    assert clock.sample(gpu.work, batch=4) == pytest.approx(0.003)
    assert gpu.log.count("flush") == gpu.log.count("call on main") == 4


def test_a_cold_clock_is_called_cold_where_its_self_test_is_slower_cold(gpu: Gpu) -> None:
    clock = ColdClock("cuda:0", gpu)
    assert clock.label == "cold"
    assert clock.cold_ratio == pytest.approx(3.0)


@pytest.mark.parametrize("cold_ms", [1.0, 1.05, 0.9])
def test_the_label_cold_is_refused_where_the_flush_makes_no_difference(gpu: Gpu, cold_ms: float) -> None:
    gpu.cold_ms = cold_ms
    assert ColdClock("cuda:0", gpu).label == "events"


def test_a_device_whose_events_do_not_advance_is_not_called_cold(gpu: Gpu) -> None:
    gpu.cold_ms = gpu.warm_ms = 0.0
    clock = ColdClock("cuda:0", gpu)
    assert (clock.label, clock.cold_ratio) == ("events", 1.0)


def test_the_stream_is_held_for_longer_than_the_host_takes_to_queue_the_call(gpu: Gpu, host_ns: list[int]) -> None:
    clock = ColdClock("cuda:0", gpu)

    def call() -> None:
        host_ns[0] += 10_000_000
        gpu.work()

    assert clock.prepare(call) is call
    clock.sample(call, batch=1)
    assert 0.010 < clock.queue_seconds < 0.020
    # cycles at 2 GHz: no current device runs faster, so the hold lasts at least as long
    assert gpu.held >= 0.010 * 2e9


def test_the_stream_is_never_held_for_more_than_fifty_milliseconds(gpu: Gpu, host_ns: list[int]) -> None:
    clock = ColdClock("cuda:0", gpu)
    clock.prepare(lambda: host_ns.__setitem__(0, host_ns[0] + 10**10))
    assert clock.queue_seconds == 0.05


@pytest.mark.parametrize(("late", "flags"), [(2, ()), (3, ("gaps",)), (20, ("gaps",))])
def test_calls_that_no_hold_lets_be_queued_in_time_are_flagged(gpu: Gpu, late: int, flags: tuple[str, ...]) -> None:
    clock = ColdClock("cuda:0", gpu)
    for i in range(20):
        gpu.late = i < late
        clock.sample(gpu.work, batch=1)
    assert (clock.gaps, clock.flags) == (late, flags)


def test_a_sample_with_a_gap_is_taken_again_with_the_stream_held_for_longer(gpu: Gpu) -> None:
    clock, seen = ColdClock("cuda:0", gpu), list[object]()
    gpu.needed = 6e-3
    assert clock.sample(gpu.counted, 1, seen.append) == pytest.approx(0.003)
    # held for 1, 2, 4 and then 8 ms; only the last call counts, and is looked at
    assert (gpu.calls, seen, clock.gaps, clock.taken) == (4, [4], 0, 1)
    clock.sample(gpu.counted, 1)
    assert gpu.calls == 5


def test_a_call_that_waits_for_the_device_itself_is_not_held_for_longer_again_and_again(gpu: Gpu) -> None:
    clock = ColdClock("cuda:0", gpu)
    gpu.late = True
    for _ in range(10):
        clock.sample(gpu.counted, 1)
    # 1, 2, 4, 8, 16, 32 and 50 ms, and then once a sample
    assert gpu.calls == 7 + 9
    assert clock.flags == ("gaps",)
    assert gpu.held == 2_000_000


@pytest.mark.parametrize(("slow", "flags"), [(2, ()), (3, ("slowed",))])
def test_the_clock_of_the_gpu_is_read_at_each_call_and_slow_ones_are_flagged(
    gpu: Gpu, slow: int, flags: tuple[str, ...]
) -> None:
    clock = ColdClock("cuda:0", gpu)
    for i in range(20):
        gpu.mhz = 1700 if i < slow else 1980
        clock.sample(gpu.work, batch=1)
    assert clock.facts == {"clock": "cold", "cold_ratio": 3.0, "sm_clock_mhz": 1980, "sm_clock_mhz_lowest": 1700}
    assert clock.flags == flags


def test_the_self_test_of_a_cold_clock_counts_for_no_gap(gpu: Gpu) -> None:
    gpu.late = True
    assert ColdClock("cuda:0", gpu).flags == ()


@pytest.mark.parametrize("kind", [GraphClock, ColdGraphClock])
def test_a_graph_is_captured_after_three_calls_on_the_side_stream_that_a_forward_before_it_is_on_too(
    gpu: Gpu, kind: type[GraphClock] | type[ColdGraphClock]
) -> None:
    clock = kind("cuda:0", gpu)
    gpu.work("forward")
    clock.prepare(gpu.work)
    at = gpu.log.index("side waits for main")
    assert gpu.log[at + 1 : at + 6] == ["forward on side", *["call on side"] * 3, "call on capture"]


def test_a_graph_sample_replays_the_captured_call_between_two_events(gpu: Gpu) -> None:
    clock = GraphClock("cuda:0", gpu)
    replay = clock.prepare(gpu.work)
    gpu.log.clear()
    assert clock.sample(replay, batch=3) == pytest.approx(0.001)
    assert gpu.log == ["event", "replay on side", "replay on side", "replay on side", "event", "synchronize"]


@pytest.mark.parametrize(("call_ms", "unrolled"), [(0.3, 1), (0.15, 2), (0.02, 10), (0.001, 64)])
def test_a_graph_of_a_short_call_holds_it_many_times_over(gpu: Gpu, call_ms: float, unrolled: int) -> None:
    gpu.warm_ms, clock, seen = call_ms, GraphClock("cuda:0", gpu), list[object]()
    replay = clock.prepare(gpu.counted)
    assert clock.facts == {"clock": "graph", "unrolled": unrolled}
    gpu.log.clear()
    assert clock.sample(replay, 2 * unrolled, seen.append) == pytest.approx(call_ms / 1e3)
    assert gpu.log.count("replay on side") == 2 * unrolled
    # the result of the last call that was captured
    assert seen == [gpu.calls]


def test_a_cold_graph_is_replayed_after_a_flush_each_time(gpu: Gpu) -> None:
    clock = ColdGraphClock("cuda:0", gpu)
    replay = clock.prepare(gpu.work)
    gpu.log.clear()
    assert clock.label == "graph_cold"
    assert clock.sample(replay, batch=2) == pytest.approx(0.003)
    assert [line for line in gpu.log if line in {"flush", "replay on side"}] == ["flush", "replay on side"] * 2


def test_a_graph_sample_holds_many_replays_so_that_the_launch_of_the_first_is_small() -> None:
    assert GraphClock("cuda:0", Gpu()).min_sample >= 0.005


@pytest.mark.parametrize("kind", [ColdClock, GraphClock])
def test_a_clock_of_a_gpu_can_wait_for_it(gpu: Gpu, kind: type[ColdClock] | type[GraphClock]) -> None:
    clock = kind("cuda:0", gpu)
    gpu.log.clear()
    clock.synchronize()
    assert gpu.log == ["synchronize"]


@pytest.mark.parametrize(("l2", "least"), [(4096, 2 * 4096), (0, 2**26), (None, 2**26)], ids=["known", "zero", "untold"])
def test_the_flush_overwrites_at_least_twice_the_cache(l2: int | None, least: int) -> None:
    properties = SimpleNamespace() if l2 is None else SimpleNamespace(L2_cache_size=l2)
    flush = CacheFlush("cuda:0", SimpleNamespace(get_device_properties=lambda device: properties))
    assert flush.buffer.nbytes >= least


def test_the_flush_writes_its_whole_buffer() -> None:
    flush = CacheFlush("cuda:0", Gpu())
    flush.buffer.fill_(1)
    flush()
    assert not flush.buffer.any()


def test_the_flush_ends_by_reading_so_that_nothing_is_written_back_later() -> None:
    flush = CacheFlush("cuda:0", Gpu())
    flush.read.fill_(1)
    flush()
    assert flush.read == 0


@pytest.mark.parametrize(("others", "milliseconds", "flags"), [(10, 3.0, ()), (11, 3.0, ("late",)), (20, 49.0, ("late",))])
def test_work_on_another_stream_that_outlives_most_calls_is_flagged(
    gpu: Gpu, host_ns: list[int], monkeypatch: pytest.MonkeyPatch, others: int, milliseconds: float, flags: tuple[str, ...]
) -> None:
    gpu.cold_ms = milliseconds
    clock, alone = ColdClock("cuda:0", gpu), gpu.synchronize

    def synchronize(device: str) -> None:
        alone(device)
        host_ns[0] += 1_000_000 if gpu.calls <= others else 1_000

    monkeypatch.setattr(gpu, "synchronize", synchronize)
    for _ in range(20):
        clock.sample(gpu.counted, batch=1)
    assert clock.flags == flags
    assert clock.facts["late_share"] == others / 20
    assert clock.facts["longest_wait"] == pytest.approx(1e-3)


def test_a_wait_that_is_a_fiftieth_of_its_call_is_not_late(
    gpu: Gpu, host_ns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu.cold_ms = 51.0
    clock, alone = ColdClock("cuda:0", gpu), gpu.synchronize

    def synchronize(device: str) -> None:
        alone(device)
        host_ns[0] += 1_000_000

    monkeypatch.setattr(gpu, "synchronize", synchronize)
    for _ in range(20):
        clock.sample(gpu.work, batch=1)
    assert clock.flags == ()
    assert "late_share" not in clock.facts


@pytest.mark.parametrize(
    "made",
    [lambda gpu: WallClock(), lambda gpu: ColdClock("cuda:0", gpu), lambda gpu: GraphClock("cuda:0", gpu)],
)
def test_what_the_last_call_of_a_sample_gave_is_looked_at_once_its_time_is_taken(
    gpu: Gpu, host_ns: list[int], made: Callable[[Gpu], Clock]
) -> None:
    clock = made(gpu)
    given, seen = iter(range(100)), []

    def call() -> int:
        host_ns[0] += 1000
        gpu.work()
        return next(given)

    def look(result: object) -> None:
        host_ns[0] += 10**9
        gpu.milliseconds += 10**6
        seen.append(result)

    seconds = clock.sample(call, 3, look)
    assert len(seen) == 1
    assert seen == [2]
    assert seconds < 0.1
