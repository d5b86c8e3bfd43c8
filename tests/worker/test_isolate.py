"""Every way in which a child can end comes back as an answer with the right status."""

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import psutil
import pytest

from attnbench.schema.cell import Allocator, Cell, Workload
from attnbench.schema.errand import ANSWER, Description, Inquiry, Job, Limits, Pass, Surroundings, Survey
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Task, Training
from attnbench.worker import main
from attnbench.worker.isolate import Ending, Isolation, held_against, post_mortem
from attnbench.worker.main import encoded

PLUGINS = Path(__file__).parents[1] / "plugins"
SMALL = Problem(H=2, N=128, D=16)


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a method that marks itself leaves the process that it ran in."""
    return tmp_path_factory.mktemp("marks") / "marks"


@pytest.fixture(scope="module")
def warm(marks: Path) -> Iterator[Isolation]:
    """One server for all that leave it as it was; to start one takes two seconds."""
    with pytest.MonkeyPatch.context() as patch, Isolation(packages=PLUGINS) as isolation:
        patch.setenv("ATTNBENCH_TEST_MARKS", str(marks))
        patch.setenv("XDG_CACHE_HOME", str(marks.parent))
        yield isolation


def job(method: str, **fields: object) -> Job:
    cell = Cell(method=method, problem=SMALL, workload=Workload.FORWARD)
    return Job.model_validate({"cell": cell, "limits": Limits(seconds=0.1, memory_bytes=2**30), **fields})


def measures(worker: Isolation, method: str = "plain:Plain") -> Measured:
    answer, _ = worker.ask(job(method), 60)
    assert isinstance(answer, Measured), answer
    return answer


def failure(worker: Isolation, method: str, timeout: float = 60) -> Failed:
    answer, _ = worker.ask(job(method), timeout)
    assert isinstance(answer, Failed), answer
    return answer


def orphans() -> list[psutil.Process]:
    """Of these tests; others may run beside them, each with an environment of its own."""
    found = [p for p in psutil.process_iter(["cmdline", "environ"]) if "attnbench-test-orphan" in (p.info["cmdline"] or [])]
    own = ("PYTEST_XDIST_WORKER", "XDG_RUNTIME_DIR")
    return [p for p in found if all((p.info["environ"] or {}).get(name) == os.environ.get(name) for name in own)]


def test_every_errand_has_a_process_of_its_own_forked_from_a_server_of_one_thread(warm: Isolation, marks: Path) -> None:
    for _ in range(3):
        measures(warm, "plain:Marked")
    pids = [line.split()[0] for line in marks.read_text().splitlines()]
    assert len(set(pids)) == 3
    # to fork is safe without threads, of which CUDA has some
    assert warm._server is not None
    assert psutil.Process(warm._server.pid).num_threads() == 1


ENDS = {
    "faulty:Segfaults": (Status.CRASHED, "SIGSEGV (signal 11)"),
    "faulty:Aborts": (Status.CRASHED, "SIGABRT (signal 6)"),
    "faulty:Killed": (Status.CRASHED, "SIGKILL (signal 9)"),
    "faulty:Exits": (Status.ERROR, "exit code 3"),
    "faulty:Raises": (Status.ERROR, "ValueError: this method is out of order"),
    "faulty:StickyCudaError": (Status.ERROR, "illegal memory access"),
    "faulty:OutOfDeviceMemory": (Status.OOM_DEVICE, "512.00 GiB"),
    "faulty:RaisesMemoryError": (Status.OOM_HOST, "memory limit"),
    "faulty:AllocatesWithoutEnd": (Status.OOM_HOST, "memory limit"),
    "faulty:HasNoRoomForWords": (Status.OOM_HOST, "memory limit"),
    "faulty:UsesUpItsMemory": (Status.OOM_HOST, "memory limit of this cell reached: 134217728"),
    "faulty:Declines": (Status.UNSUPPORTED, "only float64 is written"),
    "faulty:NeedsAPackage": (Status.MISSING, "pip install 'a-package-that-nobody-has>=2'"),
    "import_raises:Method": (Status.ERROR, "cannot be imported today"),
    "import_exits:Method": (Status.ERROR, "SystemExit: 4"),
    "import_dies:Method": (Status.ERROR, "exit code 5"),
    "import_chatters:Method": (Status.ERROR, "after 100 MB"),
    "import_needs:Method": (Status.MISSING, "pip install a_module_that_nobody_has"),
    "import_wanders:Method": (Status.ERROR, "lost"),
}


def test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean(warm: Isolation) -> None:
    measures(warm, "faulty:ChangesTheWorld")
    for method, (status, words) in ENDS.items():
        failed = failure(warm, method)
        assert (failed.status, method) == (status, method), failed.reason
        assert words in failed.reason, method
        if method in {"faulty:Segfaults", "faulty:Raises"}:
            # the last lines of the traceback, without a folder of one machine
            assert 'faulty.py"' in failed.detail
            assert '"/' not in failed.detail
        measures(warm)


def test_a_hang_times_out_shows_where_and_ends_with_all_that_it_started_whatever_it_ignores(warm: Isolation) -> None:
    for method, file in (("import_hangs:Method", "import_hangs.py"), ("faulty:Hangs", "faulty.py")):
        failed = failure(warm, method, timeout=2)
        assert failed.status is Status.TIMEOUT
        assert "no answer within 2 s" in failed.reason
        assert file in failed.detail
    assert orphans() == []


def test_processes_that_a_method_leaves_behind_are_ended_and_its_times_do_not_count(warm: Isolation) -> None:
    failed = failure(warm, "faulty:LeavesChildren")
    assert failed.status is Status.UNFAIR
    assert failed.reason.startswith("it left 2 processes running")
    assert failed.samples["time"].values
    assert orphans() == []


def test_a_method_that_prints_100_megabytes_is_measured_and_its_last_64_kibibytes_are_kept(
    warm: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, endings = warm._request, list[Ending]()

    def watched(asked: dict[str, Any]) -> Ending:
        endings.append(request(asked))
        return endings[-1]

    monkeypatch.setattr(warm, "_request", watched)
    measures(warm, "faulty:Chatters")
    # what torch's profiler says of itself comes after all that the method printed
    (printed,) = (ending.output for ending in endings)
    assert len(printed) == 64 * 1024
    assert set(printed.partition("USDT:")[0]) == {"x"}


def test_a_child_dies_with_its_server_and_the_next_errand_finds_a_new_one() -> None:
    with Isolation(packages=PLUGINS) as worker:
        measures(worker)
        assert worker._server is not None
        # between two errands, and in the midst of one
        worker._server.kill()
        worker._server.wait()
        measures(worker)
        server, children = psutil.Process(worker._server.pid), []

        def kill_in_mid_errand() -> None:
            while not (found := server.children()):
                time.sleep(0.05)
            children.extend(found)
            server.kill()

        killer = threading.Thread(target=kill_in_mid_errand)
        killer.start()
        assert failure(worker, "import_hangs:Method", timeout=30).status is Status.CRASHED
        killer.join()
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == []


@pytest.fixture
def at_its_start(plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have every server run these statements when it starts, and nothing else."""

    def _arrange(statements: str) -> None:
        only_the_server = "import os, pathlib, sys\nif 'attnbench.worker.server' in ' '.join(sys.orig_argv):\n"
        (tmp_path / "sitecustomize.py").write_text(only_the_server + indent(statements, "    "))
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{plugins}")

    return _arrange


@pytest.mark.slow
def test_a_server_that_cannot_start_warm_falls_back_to_fresh_interpreters(at_its_start: Callable[[str], None]) -> None:
    at_its_start("sys.modules['torch'] = None")
    with Isolation() as worker:
        answer = measures(worker)
        assert worker.fresh
        assert failure(worker, "faulty:Segfaults").reason == "SIGSEGV (signal 11)"
    assert "could not be started with torch in it (exit code 1)" in str(answer.facts["server"])
    assert "fresh_interpreter" in answer.flags


def test_a_server_that_is_killed_while_it_starts_is_started_anew_and_that_is_recorded(
    at_its_start: Callable[[str], None], tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.write_text("2")
    at_its_start(
        f"left = pathlib.Path({str(left)!r})\n"
        "if count := int(left.read_text()):\n"
        "    left.write_text(str(count - 1))\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    with Isolation() as worker:
        answer = measures(worker)
        assert not worker.fresh
    said = "the worker's server was ended by SIGKILL (signal 9) while it started, and was started anew"
    assert answer.facts["server"] == said
    assert "fresh_interpreter" not in answer.flags


def test_a_server_that_is_killed_again_and_again_says_so(at_its_start: Callable[[str], None]) -> None:
    at_its_start("os.kill(os.getpid(), 9)")
    with Isolation() as worker:
        failed = failure(worker, "plain:Plain")
    assert failed.status is Status.CRASHED
    assert "the worker's server was ended by SIGKILL (signal 9)" in failed.reason


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("WritesNonsense", "half a letter: ?"),
        ("CostsNothingKnown", "cost.nominal_flops: input should be greater than or equal to 0"),
        ("RefusesWithANumber", "why_not: input should be a valid string; it is 7"),
        ("Unfinished", "faulty:Unfinished is not finished: it has no paper, no reference"),
    ],
)
def test_an_answer_that_cannot_be_encoded_or_read_is_words(name: str, words: str, warm: Isolation) -> None:
    cell = Cell(method=f"faulty:{name}", problem=SMALL)
    answer, _ = warm.ask(Inquiry(method=cell.method, cells=(cell,)), 60)
    assert words in (answer.reason if isinstance(answer, Failed) else answer.model_dump_json())


def test_what_is_no_number_cannot_be_recorded_and_is_an_error_of_its_cell() -> None:
    answer = ANSWER.validate_json(encoded(Measured(facts={"gain": math.nan})))
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("its answer cannot be written as JSON: Out of range float values")


def test_an_exception_has_words_even_where_it_has_none_and_the_method_s_own_line(warm: Isolation) -> None:
    lines = (PLUGINS / "faulty.py").read_text().splitlines()
    (first, *_) = [number for number, line in enumerate(lines, 1) if "this method is out of order" in line]
    assert failure(warm, "faulty:Raises").reason == f"ValueError: this method is out of order (faulty.py:{first}, in forward)"
    assert failure(warm, "import_raises:Method").reason.endswith("in <module>)")
    wordless = {
        "RaisesWithoutWords": "SpeechlessError: SpeechlessError, whose own text cannot be had: it raises RuntimeError",
        "RaisesNothingButSpace": "ValueError: ValueError",
        "RaisesHalfALetter": "ValueError: half a letter: ?",
    }
    for name, words in wordless.items():
        failed = failure(warm, f"faulty:{name}")
        assert failed.status is Status.ERROR
        assert failed.reason.startswith(f"{words} (faulty.py:")


@pytest.mark.parametrize(
    ("signal", "kills", "output", "status"),
    [(9, 0, "", Status.CRASHED), (9, 1, "", Status.OOM_HOST), (6, 0, "thrown: 'std::bad_alloc'", Status.OOM_HOST)],
)
def test_a_kill_is_out_of_memory_only_where_the_kernel_counted_one_or_cpp_says_so(
    signal: int, kills: int, output: str, status: Status
) -> None:
    assert post_mortem(Ending(exit=-signal, timed_out=False, oom_kills=kills, output=output, seconds=1.0), 10).status is status


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("'inductor' raised:\n\nValueError: cannot view\n\nand more", "'inductor' raised: ValueError: cannot view"),
        ("one line\nand more", "one line"),
        ("nothing follows:", "nothing follows:"),
    ],
)
def test_a_reason_goes_on_where_its_first_line_only_announces_it(text: str, reason: str) -> None:
    assert main.failure(RuntimeError(text)).reason == f"RuntimeError: {reason}"


def test_an_inquiry_comes_back_with_reasons_and_costs(warm: Isolation) -> None:
    cells = tuple(Cell(method="faulty:Declines", problem=SMALL.model_copy(update={"dtype": dtype})) for dtype in DType)
    answer, _ = warm.ask(Inquiry(method="faulty:Declines", cells=cells), 60)
    assert isinstance(answer, Description)
    assert [p.why_not for p in answer.prospects] == [None, *["only float64 is written"] * 3]
    assert answer.prospects[0].cost is not None


def test_a_survey_of_a_device_that_is_not_there_says_so(warm: Isolation) -> None:
    answer, _ = warm.ask(Survey(device="cuda:99"), 60)
    assert isinstance(answer, Failed)
    assert answer.status is Status.UNSUPPORTED
    assert answer.reason.startswith("torch ")
    assert isinstance(warm.ask(Survey(), 60)[0], Surroundings)


# how well a whole model speaks is asked of models of transformers, in tests/hf
PASSES = [(phase, Allocator.RETAIN) for phase in Pass if phase is not Pass.QUALITY]


@pytest.mark.parametrize(("phase", "allocator"), [*PASSES, (Pass.TIME, Allocator.SYSTEM)])
def test_every_pass_of_a_job_answers_by_both_allocators(
    warm: Isolation, phase: Pass, allocator: Allocator, tmp_path: Path
) -> None:
    changes: dict[str, object] = {"allocator": allocator}
    if phase is Pass.TRAIN:
        changes |= {"workload": Workload.TRAIN, "training": Training(task=Task.COPY, layers=1, updates=2, held_out=2)}
        changes |= {"problem": SMALL.model_copy(update={"causal": True})}
    asked = job("plain:Plain", phase=phase, folder=str(tmp_path) if phase is Pass.TRACE else None)
    limits = Limits(seconds=60 if phase is Pass.TRAIN else 0.1, memory_bytes=2**30)
    answer, _ = warm.ask(asked.model_copy(update={"cell": asked.cell.model_copy(update=changes), "limits": limits}), 60)
    assert isinstance(answer, Measured), answer
    assert bool(answer.memory) == (phase is Pass.MEMORY)


def sampled(*, claimed: float = 1.0, samples: tuple[float, ...] = (0.25,) * 4, clock: str = "wall", batch: int = 1) -> Measured:
    facts: dict[str, Scalar | None] = {"sampling_seconds": claimed, "clock": clock, "batch": batch}
    return Measured(samples={"time": Series(unit="s", values=samples)}, facts=facts)


@pytest.mark.parametrize(
    ("answer", "marks", "words"),
    [
        (sampled(), (5.0, 6.0), None),
        (sampled(), (5.0, 6.15), None),
        (sampled(samples=(0.0025,) * 4, batch=100), (5.0, 6.0), None),
        (sampled(samples=(0.001,), clock="cold"), (5.0, 6.0), None),
        (sampled(), (), "when it was sampled cannot be seen from outside its process"),
        (sampled(), (5.0, 5.5, 6.0), "when it was sampled cannot be seen"),
        (sampled(claimed=0.1), (5.0, 6.0), "by its own clock sampling took 100 ms, by another process' 1.00 s"),
        (sampled(claimed=3.0), (5.0, 6.0), "by its own clock sampling took 3.00 s, by another process' 1.00 s"),
        (sampled(samples=(0.1,) * 4), (5.0, 6.0), "its samples add up to 400 ms of the 1.00 s in which they were taken"),
    ],
)
def test_samples_count_only_where_another_process_agrees(answer: Measured, marks: tuple[float, ...], words: str | None) -> None:
    found = held_against(answer, marks)
    if words is None:
        assert found is answer
        return
    assert isinstance(found, Failed)
    assert found.status is Status.UNFAIR
    assert words in found.reason
    assert (found.samples, found.facts) == (answer.samples, answer.facts)


def test_a_file_of_this_project_is_named_within_it_wherever_python_was_started(tmp_path: Path) -> None:
    code = "from attnbench.worker import portable; print(portable.portable(portable.__file__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "attnbench/worker/portable.py\n"
