"""What calls run, by torch's profiler, which kernels are chosen before any, and what a method changes or leaves at work."""

import json
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from attnbench.measure.kernels import Kernel, in_words, kernels_of, tuned_launches
from attnbench.measure.process_state import ProcessState, busy_cores, children, still_at_work
from attnbench.measure.vector_math import choose_kernels


def test_the_operators_of_a_call_are_named_with_how_often_they_ran_the_longest_first(tmp_path: Path) -> None:
    x = torch.randn(256, 256)
    found = kernels_of(lambda: (x @ x @ x).cos(), "cpu", tmp_path / "trace.json")
    calls = {kernel.name: kernel.calls for kernel in found}
    assert (calls["aten::mm"], calls["aten::cos"]) == (2, 1)
    assert [kernel.seconds for kernel in found] == sorted((kernel.seconds for kernel in found), reverse=True)
    assert "aten::mm" in in_words(found)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 2


@pytest.mark.cuda
def test_the_kernels_of_a_call_on_a_gpu_are_named() -> None:
    x = torch.randn(1024, 1024, device="cuda:0")
    found = kernels_of(lambda: (x @ x).cos(), "cuda:0")
    assert sum(kernel.calls for kernel in found) == 2
    assert all(0 < kernel.seconds < 1 for kernel in found)
    assert not any(kernel.name.startswith("aten::") for kernel in found)


def test_marks_around_the_kernels_of_a_gpu_are_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    same = {"count": 1, "self_device_time_total": 2e6, "device_type": SimpleNamespace(name="CUDA")}
    events = [SimpleNamespace(key=key, is_user_annotation=key == "step", **same) for key in ("step", "adam")]
    profiler = SimpleNamespace(key_averages=lambda: events)
    monkeypatch.setattr(torch.autograd.profiler, "profile", lambda **_: nullcontext(profiler))
    monkeypatch.setattr(torch.cuda, "synchronize", id)
    assert kernels_of(list, "cuda:0") == [Kernel("adam", 1, 2.0)]


def test_what_is_beyond_the_longest_is_summed_up() -> None:
    assert in_words([Kernel("a", 1, 3.0), Kernel("b", 2, 1.0)]) == "a 75 %, b 25 %"
    assert in_words([Kernel(name, 1, 1.0) for name in "abcdefg"]).endswith("e 14 %, 2 others 29 %")
    names = ("void at::(anonymous namespace)::f<4, g<int> >(int)", "Memset (Device)", "at::f<char*>")
    assert in_words([Kernel(name, 1, 1.0) for name in names]) == "at::f 67 %, Memset 33 %"


@dataclass
class Tuner:
    """As triton.runtime.autotuner.Autotuner, which has `best_config` once it was called."""

    base_fn: Callable[[], object]

    def choose(self, config: str) -> None:
        self.best_config = config


def test_the_launches_that_triton_s_autotuners_chose_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward() -> None: ...
    def backward() -> None: ...
    def never_called() -> None: ...

    monkeypatch.delitem(sys.modules, "triton.runtime.autotuner", raising=False)
    assert tuned_launches() == "", "Triton was not imported"
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=Tuner))
    tuners = [Tuner(function) for function in (forward, backward, never_called)]
    # a weak reference to what is gone answers no question about it
    gone = weakref.proxy(Tuner(forward))
    assert tuned_launches() == ""
    del gone
    tuners[0].choose("BLOCK: 64, num_warps: 4")
    tuners[1].choose("BLOCK: 32, num_warps: 8")
    assert tuned_launches() == "backward (BLOCK: 32, num_warps: 8); forward (BLOCK: 64, num_warps: 4)"


class Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, torch.dtype]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], torch.Tensor):
            self.seen.append((func.__name__, args[0].dtype))
        return func(*args, **(kwargs or {}))


def test_the_functions_that_attentions_use_are_called_first_by_one_thread_in_both_precisions() -> None:
    with Calls() as calls:
        choose_kernels()
    assert {("exp", torch.float32), ("exp", torch.float64), ("log", torch.float32), ("tanh", torch.float32)} <= set(calls.seen)


def test_what_changed_is_named_with_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ProcessState.read()
    assert before.changed(ProcessState.read()) == ""
    more = before.threads + 7
    words = f"it changed threads from {before.threads} to {more} and autocast from False to True"
    assert before.changed(replace(before, threads=more, autocast=True)) == words
    with torch.autocast("cpu"), torch.no_grad():
        words = "it changed gradients from True to False and autocast from False to True"
        assert before.changed(ProcessState.read()) == words
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    assert before.changed(ProcessState.read()) == "it changed clocks from Python's to another perf_counter"


@pytest.mark.parametrize(("threads", "words"), [(1, "it kept 1.6 cores busy where 1 thread is allowed"), (2, "")])
def test_more_cores_than_threads_are_told(monkeypatch: pytest.MonkeyPatch, threads: int, words: str) -> None:
    seconds, used = iter([10.0, 12.0]), iter([1.0, 4.2])
    monkeypatch.setattr("attnbench.measure.process_state.perf_counter", lambda: next(seconds))
    monkeypatch.setattr("attnbench.measure.process_state.process_time", lambda: next(used))
    assert busy_cores()(threads) == words


def test_a_thread_that_goes_on_is_noticed_and_one_that_waits_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, stop, nap = [0.0], threading.Event(), time.sleep

    def sleep(seconds: float) -> None:
        # on a busy machine a thread that computes gets its share of the processor late
        end, used = time.monotonic() + 0.5, time.process_time() + seconds
        while time.process_time() < used and time.monotonic() < end:
            nap(seconds)
        watched[0] += seconds

    def work() -> None:
        while not stop.is_set():
            pass

    monkeypatch.setattr("attnbench.measure.process_state.sleep", sleep)
    monkeypatch.setattr("attnbench.measure.process_state.perf_counter", lambda: watched[0])
    waiting, working = threading.Thread(target=stop.wait), threading.Thread(target=work)
    waiting.start()
    try:
        assert still_at_work() == ""
        working.start()
        assert still_at_work() == "it went on computing after its last call had returned"
    finally:
        stop.set()
        waiting.join()
    working.join()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as started:
        yield started
        started.kill()


def test_a_process_that_was_left_is_noticed(child: subprocess.Popen[bytes]) -> None:
    assert still_at_work() == "it left 1 process running"
    assert still_at_work(children()) == "", "it was there before"


def test_workers_of_a_compiler_are_none_of_the_method(monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]) -> None:
    def shut_down() -> None:
        child.kill()
        child.wait()

    monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", SimpleNamespace(shutdown_compile_workers=shut_down))
    assert still_at_work() == ""
