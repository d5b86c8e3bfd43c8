"""What a method changes in its process, and what goes on after its calls, is said in words."""

import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from attnbench.measure.process_state import ProcessState, busy_cores, children, still_at_work


def test_nothing_has_changed_where_nothing_was_done() -> None:
    assert ProcessState.read().changed(ProcessState.read()) == ""


def test_what_changed_is_named_with_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ProcessState.read()
    after = replace(before, threads=before.threads + 7, autocast=True)
    assert (
        before.changed(after)
        == f"it changed threads from {before.threads} to {before.threads + 7} and autocast from False to True"
    )
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    assert before.changed(ProcessState.read()) == "it changed clocks from Python's to another perf_counter"


def test_autocast_and_gradients_are_seen() -> None:
    with torch.autocast("cpu"), torch.no_grad():
        now = ProcessState.read()
    assert (now.autocast, now.gradients) == (True, False)


@pytest.mark.parametrize(
    ("threads", "words"), [(1, "it kept 1.6 cores busy where 1 thread is allowed"), (2, "")], ids=["more", "as many"]
)
def test_more_cores_than_threads_are_told(monkeypatch: pytest.MonkeyPatch, threads: int, words: str) -> None:
    seconds, used = iter([10.0, 12.0]), iter([1.0, 4.2])
    monkeypatch.setattr("attnbench.measure.process_state.perf_counter", lambda: next(seconds))
    monkeypatch.setattr("attnbench.measure.process_state.process_time", lambda: next(used))
    assert busy_cores()(threads) == words


def test_a_thread_that_goes_on_is_noticed_and_one_that_waits_is_not() -> None:
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait)
    waiting.start()
    assert still_at_work() == ""

    def work() -> None:
        while not stop.is_set():
            pass

    working = threading.Thread(target=work)
    working.start()
    try:
        # on a busy machine it may get no processor while it is watched
        found = next((words for _ in range(100) if (words := still_at_work())), "")
        assert found == "it went on computing after its last call had returned"
    finally:
        stop.set()
        working.join()
        waiting.join()


def test_what_torch_s_compiler_keeps_for_its_next_work_is_no_work_of_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as pool:

        def shut_down() -> None:
            pool.kill()
            pool.wait()

        compiler = SimpleNamespace(shutdown_compile_workers=shut_down)
        monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", compiler)
        assert still_at_work() == ""


def test_a_process_that_was_left_is_noticed() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            assert still_at_work() == "it left 1 process running"
            assert still_at_work(children()) == "", "it was there before"
        finally:
            child.kill()
