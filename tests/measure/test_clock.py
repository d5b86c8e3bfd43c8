"""What one sample of each clock spans, on stubs that write down the order of operations, and on a real GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench.measure import clock as clocks
from attnbench.measure import devices
from attnbench.measure.clock import CacheFlush, Clock, ColdClock, ColdGraphClock, GraphClock, WallClock
from attnbench.measure.loop import Loop


@dataclass
class Event:
    """A CUDA event of the stub; both its times are the stub's own."""

    gpu: "Gpu"
    at: float = 0.0

    def query(self) -> bool:
        return self.gpu.late or self.gpu.held / 2e9 < self.gpu.needed

    def record(self) -> None:
        self.at = self.gpu.milliseconds
        self.gpu.log.append("event")

    def synchronize(self) -> None:
        self.gpu.log.append("wait for event")

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
    late: bool = False
    """Whether the stream is let go before the host has queued all."""
    needed: float = 0.0
    """The seconds for which it must be held, so that the host can queue all."""
    mhz: float = 2000.0
    captured: int = 1
    calls: int = 0
    wait: Callable[[], None] = lambda: None
    """What passes while the host waits for the device."""

    def work(self, name: str = "call") -> None:
        """A kernel: slower when the cache was flushed since the device was last idle."""
        idle = len(self.log) - self.log[::-1].index("synchronize") if "synchronize" in self.log else 0
        self.milliseconds += self.cold_ms if "flush" in self.log[idle:] else self.warm_ms
        self.log.append(f"{name} on {self.current}")

    def counted(self) -> int:
        """A call that gives its own number."""
        self.calls += 1
        self.work()
        return self.calls

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802 - torch's name
        assert enable_timing
        return Event(self)

    def synchronize(self, device: str) -> None:
        assert device == "cuda:0"
        self.log.append("synchronize")
        self.wait()

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


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A stub whose self-test copies take its cold and warm times."""
    made = Gpu()

    class Flush:
        def __init__(self, device: str, cuda: object) -> None:
            self.buffer = torch.empty(64, dtype=torch.int32)

        def __call__(self) -> None:
            made.log.append("flush")

    monkeypatch.setattr(clocks, "CacheFlush", Flush)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda target, source: made.work("copy"))
    return made


@pytest.fixture
def host_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's nanoseconds, moved by hand."""
    now = [0]
    monkeypatch.setattr(clocks, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(clocks, "perf_counter", lambda: now[0] / 1e9)
    return now


def test_the_wall_clock_gives_seconds_a_call_from_an_idle_device_to_an_idle_device(host_ns: list[int]) -> None:
    log: list[str] = []

    def lasting(name: str, nanoseconds: int) -> None:
        log.append(name)
        host_ns[0] += nanoseconds

    clock = WallClock(lambda: lasting("synchronize", 1000))
    call = clock.prepare(lambda: lasting("call", 4000))
    # only the second wait belongs to the calls
    assert clock.sample(call, batch=2) == pytest.approx(4.5e-6)
    assert log == ["synchronize", "call", "call", "synchronize"]


@pytest.mark.parametrize(
    ("kind", "label", "call"), [(ColdClock, "cold", "call on main"), (ColdGraphClock, "graph_cold", "replay on side")]
)
def test_a_cold_sample_flushes_holds_the_stream_and_times_only_the_call_each_of_a_batch_on_its_own(
    gpu: Gpu, kind: type[Any], label: str, call: str
) -> None:
    clock = kind("cuda:0", gpu)
    work = clock.prepare(gpu.work)
    assert clock.label == label
    for batch in (1, 4):
        gpu.log.clear()
        assert clock.sample(work, batch) == pytest.approx(0.003)
        one = ["flush", "event", "hold", "event", call, "event", "wait for event", "synchronize"]
        assert gpu.log == one * batch


@pytest.mark.parametrize(
    ("cold_ms", "warm_ms", "ratio", "label"),
    [
        (3.0, 1.0, 3.0, "cold"),
        *((ms, 1.0, ms, "events") for ms in (1.0, 1.05, 0.9)),
        # events that do not advance
        (0.0, 0.0, 1.0, "events"),
    ],
)
def test_only_where_the_flush_matters_is_it_cold(gpu: Gpu, cold_ms: float, warm_ms: float, ratio: float, label: str) -> None:
    gpu.cold_ms, gpu.warm_ms = cold_ms, warm_ms
    clock = ColdClock("cuda:0", gpu)
    assert clock.label == label
    assert clock.cold_ratio == pytest.approx(ratio)


def test_the_stream_is_held_for_longer_than_the_host_takes_to_queue_up_to_50_ms(gpu: Gpu, host_ns: list[int]) -> None:
    clock = ColdClock("cuda:0", gpu)

    def call() -> None:
        host_ns[0] += 10_000_000
        gpu.work()

    assert clock.prepare(call) is call
    clock.sample(call, batch=1)
    assert 0.010 < clock.queue_seconds < 0.020
    # cycles at 2 GHz: no current device runs faster, so the hold lasts at least as long
    assert gpu.held >= 0.010 * 2e9
    clock.prepare(lambda: host_ns.__setitem__(0, host_ns[0] + 10**10))
    assert clock.queue_seconds == 0.05


@pytest.mark.parametrize(("late", "flags"), [(2, ()), (3, ("gaps",)), (20, ("gaps",))])
def test_calls_that_no_hold_lets_be_queued_in_time_are_flagged(gpu: Gpu, late: int, flags: tuple[str, ...]) -> None:
    gpu.late = True
    clock = ColdClock("cuda:0", gpu)
    assert clock.flags == (), "its self-test counts for no gap"
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
    assert (gpu.calls, gpu.held, clock.flags) == (7 + 9, 2_000_000, ("gaps",))


@pytest.mark.parametrize(("slow", "flags"), [(2, ()), (3, ("slowed",))])
def test_the_clock_of_the_gpu_is_read_at_each_call_and_low_ones_flagged(gpu: Gpu, slow: int, flags: tuple[str, ...]) -> None:
    clock = ColdClock("cuda:0", gpu)
    for i in range(20):
        gpu.mhz = 1700 if i < slow else 1980
        clock.sample(gpu.work, batch=1)
    assert clock.facts == {"clock": "cold", "cold_ratio": 3.0, "sm_clock_mhz": 1980, "sm_clock_mhz_lowest": 1700}
    assert clock.flags == flags


@pytest.mark.parametrize(
    ("others", "milliseconds", "flags", "share"),
    # a wait of less than a fiftieth of its call is none
    [(10, 3.0, (), 0.5), (11, 3.0, ("late",), 0.55), (20, 49.0, ("late",), 1.0), (20, 51.0, (), None)],
)
def test_work_on_another_stream_that_outlives_most_calls_is_flagged(
    gpu: Gpu, host_ns: list[int], others: int, milliseconds: float, flags: tuple[str, ...], share: float | None
) -> None:
    gpu.cold_ms = milliseconds
    clock = ColdClock("cuda:0", gpu)
    gpu.wait = lambda: host_ns.__setitem__(0, host_ns[0] + (1_000_000 if gpu.calls <= others else 1_000))
    for _ in range(20):
        clock.sample(gpu.counted, batch=1)
    assert clock.flags == flags
    late = {"late_share": share, "longest_wait": 1e-3} if share else {}
    assert {key: value for key, value in clock.facts.items() if key in {"late_share", "longest_wait"}} == late


@pytest.mark.parametrize("kind", [GraphClock, ColdGraphClock])
def test_a_graph_is_captured_after_three_calls_on_the_side_stream_of_its_forward(gpu: Gpu, kind: type[Any]) -> None:
    clock = kind("cuda:0", gpu)
    gpu.work("forward")
    clock.prepare(gpu.work)
    at = gpu.log.index("side waits for main")
    assert gpu.log[at + 1 : at + 6] == ["forward on side", *["call on side"] * 3, "call on capture"]


def test_what_no_graph_can_hold_is_said_and_not_that_the_capture_failed(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def reads() -> None:
        if gpu.current == "capture":
            raise RuntimeError("operation not permitted when stream is capturing")

    @contextmanager
    def graph(*_: object, **__: object) -> Iterator[None]:
        gpu.current = "capture"
        try:
            yield
        finally:
            # as torch ends a capture, whatever was raised in it
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(gpu, "graph", graph)
    clock = GraphClock("cuda:0", gpu)
    with pytest.raises(RuntimeError, match="not permitted"):
        clock.prepare(reads)
    gpu.current = "side"
    with pytest.raises(RuntimeError, match="a previous error"):
        clock.prepare(lambda: None)


@pytest.mark.parametrize(
    ("call_ms", "most", "unrolled"), [(0.3, 64, 1), (0.15, 64, 2), (0.02, 64, 10), (1e-3, 64, 64), (1e-3, 1, 1)]
)
def test_a_graph_of_a_short_call_holds_it_as_often_as_it_may(gpu: Gpu, call_ms: float, most: int, unrolled: int) -> None:
    gpu.warm_ms, clock, seen = call_ms, GraphClock("cuda:0", gpu), list[object]()
    clock.most_unrolled = most
    replay = clock.prepare(gpu.counted)
    assert clock.facts == {"clock": "graph", "unrolled": unrolled}
    gpu.log.clear()
    assert clock.sample(replay, 2 * unrolled, seen.append) == pytest.approx(call_ms / 1e3)
    assert gpu.log == ["event", *["replay on side"] * 2 * unrolled, "event", "synchronize"]
    # the result of the last call that was captured
    assert seen == [gpu.calls]


@pytest.mark.parametrize(("l2", "least"), [(4096, 2 * 4096), (0, 2**26), (None, 2**26)], ids=["known", "zero", "untold"])
def test_the_flush_overwrites_at_least_twice_the_cache_and_ends_by_reading(l2: int | None, least: int) -> None:
    properties = SimpleNamespace() if l2 is None else SimpleNamespace(L2_cache_size=l2)
    flush = CacheFlush("cuda:0", SimpleNamespace(get_device_properties=lambda device: properties))
    assert flush.buffer.nbytes >= least
    flush.buffer.fill_(1)
    flush.read.fill_(1)
    flush()
    assert not flush.buffer.any()
    # nothing is left to be written back while the next call is timed
    assert flush.read == 0


@pytest.mark.parametrize(
    "made", [lambda gpu: WallClock(), lambda gpu: ColdClock("cuda:0", gpu), lambda gpu: GraphClock("cuda:0", gpu)]
)
def test_the_last_result_of_a_sample_is_seen_once_timed(gpu: Gpu, host_ns: list[int], made: Callable[[Gpu], Clock]) -> None:
    seen: list[object] = []

    def call() -> int:
        host_ns[0] += 1000
        return gpu.counted()

    def look(result: object) -> None:
        host_ns[0] += 10**9
        gpu.milliseconds += 10**6
        seen.append(result)

    assert made(gpu).sample(call, 3, look) < 0.1
    assert seen == [3]


@pytest.mark.cuda
def test_the_first_call_includes_the_work_that_it_only_queued() -> None:
    a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.float32)
    a @ a
    torch.cuda.synchronize()

    def call() -> None:
        for _ in range(200):
            a @ a

    timing = Loop(devices.clock("cuda:0", "cold"), 1.0).run(call)
    assert timing.first_call >= 0.5 * min(timing.samples)


@pytest.mark.cuda
def test_a_call_that_waits_for_the_gpu_is_flagged_and_one_that_does_not_is_not() -> None:
    a = torch.randn(1024, 1024, device="cuda:0")

    def waits() -> None:
        (a @ a).sum().item()

    for call, has_gaps in ((waits, True), (lambda: a @ a, False)):
        clock = ColdClock("cuda:0")
        clock.sample(clock.prepare(call), 20)
        assert ("gaps" in clock.flags) is has_gaps


@pytest.mark.cuda
def test_a_gpu_has_a_clock_that_gpus_have_and_copies_no_faster_cold_than_warm() -> None:
    clock = ColdClock("cuda:0")
    assert clock.cold_ratio >= 1.0
    clock.sample(torch.randn(1024, 1024, device="cuda:0").exp, 20)
    assert len(clock.clocks_mhz) == 20
    assert all(150 < each < 4000 for each in clock.clocks_mhz)


@pytest.mark.cuda
def test_a_call_of_a_microsecond_is_not_the_launch_of_its_graph() -> None:
    """A graph's launch takes about 6 µs; a kernel of one block in a graph of many takes less."""
    x = torch.zeros(32, device="cuda:0")
    clock = GraphClock("cuda:0")
    replay = clock.prepare(lambda: x.add_(1))
    assert clock.unrolled > 8
    assert min(clock.sample(replay, 6400) for _ in range(5)) < 5e-6
