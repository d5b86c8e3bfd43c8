"""What a method changes in its process, and what goes on after its calls, is said in words."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from attnbench.measure.process_state import ProcessState, busy_cores, children, still_at_work


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


@pytest.mark.parametrize(
    ("threads", "words"), [(1, "it kept 1.6 cores busy where 1 thread is allowed"), (2, "")], ids=["more", "as many"]
)
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


def test_the_workers_of_torch_s_compiler_are_none_of_the_method(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]
) -> None:
    def shut_down() -> None:
        child.kill()
        child.wait()

    compiler = SimpleNamespace(shutdown_compile_workers=shut_down)
    monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", compiler)
    assert still_at_work() == ""
