"""`attnbench run`, for real: every fault is a row, nothing recorded is lost, no process is left behind."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation
from tests.cli.conftest import PLUGINS, Find, Run, Start, Write, begin, end, fine, wait_for_records

SMALL = """
name: small
axes: {N: [65, 256], H: 2, D: 16, causal: true}
methods: ["plain:Plain", "faulty:Slow", "faulty:Raises"]
budget: {seconds: 0.4, timeout: 20}
replicates: 1
report: {tables: [summary], plots: [time, memory]}
"""
# what is cut off and goes on: one method that is measured, one that fails
BRIEF = SMALL.replace("256", "96").replace('"faulty:Slow", ', "").replace("[time, memory]", "[]")
ONE = BRIEF.replace("[65, 96]", "65").replace(', "faulty:Raises"', "")
OWN = SMALL.replace("plain:Plain", "mine:Mine") + "source: größer × µ\n"
MINE = "from plain import Plain\n\n\nclass Mine(Plain):\n    pass  # O(N²)\n"
PLAINEST = {
    **{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    **{"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "40"},
}

FAULTS = {
    **dict.fromkeys(("plain:Plain", "faulty:ChangesTheWorld", "faulty:Chatters", "plain:Marked"), "ok"),
    **dict.fromkeys(("faulty:Segfaults", "faulty:Aborts", "faulty:Killed"), "crashed"),
    **dict.fromkeys(("faulty:Exits", "faulty:Raises", "faulty:RaisesInItsCheck", "faulty:StickyCudaError"), "error"),
    **{f"import_{what}:Method": "error" for what in ("raises", "exits", "dies", "chatters", "wanders")},
    "faulty:OutOfDeviceMemory": "oom_device",
    **dict.fromkeys(("faulty:RaisesMemoryError", "faulty:AllocatesWithoutEnd"), "oom_host"),
    "faulty:Hangs": "timeout",
    "faulty:LeavesChildren": "unfair",
    **dict.fromkeys(("faulty:NaNs", "faulty:WrongShape", "faulty:WrongValues", "faulty:Leaks"), "incorrect"),
    "faulty:Declines": "unsupported",
    **dict.fromkeys(("faulty:NeedsAPackage", "import_needs:Method"), "missing"),
}


def statuses(records: list[Record]) -> dict[str, set[str]]:
    """By method, the statuses of its time passes."""
    found: dict[str, set[str]] = {}
    for record in records:
        if record.job.phase is Pass.TIME:
            status = record.outcome.status.value if isinstance(record.outcome, Failed) else "ok"
            found.setdefault(record.job.cell.method, set()).add(status)
    return found


def read(folder: Path) -> list[Record]:
    return RunFolder(folder).records()


def finished(records: list[Record]) -> Counter[tuple[str, str, Pass, int]]:
    """What has its final record, and how often."""
    return Counter(
        (r.job.cell.method, r.job.cell.key, r.job.phase, r.job.replicate)
        for r in records
        if isinstance(r.outcome, Measured) or r.outcome.status is not Status.INTERRUPTED
    )


def without_checks(records: list[Record]) -> Counter[tuple[str, str, Pass, int]]:
    """What is finished, checks apart: one whose cells are all finished need not be made again."""
    return finished([r for r in records if r.job.phase is not Pass.CHECK])


def no_orphans(seconds: float = 5) -> bool:
    """No process is left behind by these tests; others may run beside them, each with an environment of its own."""
    marks = {"attnbench-test-orphan", "attnbench.worker.server", "attnbench.worker.main"}
    own = {name: os.environ.get(name) for name in ("PYTEST_XDIST_WORKER", "XDG_RUNTIME_DIR")}
    end = time.monotonic() + seconds
    while True:
        alive = [p.info for p in psutil.process_iter(["cmdline", "environ"]) if marks & set(p.info["cmdline"] or [])]
        left = [p["cmdline"] for p in alive if own == {name: (p["environ"] or {}).get(name) for name in own}]
        assert not left or time.monotonic() < end, left
        if not left:
            return True
        time.sleep(0.05)


@pytest.mark.slow
def test_a_suite_of_faults_costs_each_method_its_own_cells_and_no_other(attnbench: Run, suite: Write, only_run: Find) -> None:
    methods = f"name: faults\naxes: {{N: 128, H: 2, D: 16, causal: true}}\nmethods: {json.dumps(list(FAULTS))}\n"
    limits = "budget: {seconds: 0.4, timeout: 8, memory: 0.03}\nreplicates: 1\nreport: {plots: []}\n"
    assert "Traceback" not in fine(attnbench("run", suite(methods + limits))).stderr
    assert statuses(read(only_run())) == {method: {status} for method, status in FAULTS.items()}
    assert no_orphans()
    rows = (only_run() / "table.csv").read_text()
    assert all(method in rows for method in FAULTS)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolation]:
    """A server that knows the fixture attentions, and the attention of one's own."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    with Isolation(folder=folder, packages=PLUGINS) as isolation:
        yield isolation


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run of SMALL with an attention of one's own, and what it printed; who changes it takes a copy."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "mine.py").write_text(MINE)
    (folder / "s.yaml").write_text(OWN, encoding="utf-8")
    path = os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")])
    done = fine(end(begin(folder, "run", "s.yaml", PYTHONPATH=path, XDG_CACHE_HOME=str(folder / "cache"), **PLAINEST)))
    (run,) = folder.glob("results/*/*")
    return run, done.stdout + done.stderr


@pytest.fixture
def copied(small: tuple[Path, str], tmp_path: Path) -> Path:
    """That run in a folder of the test's own."""
    copy = tmp_path / "results" / "small" / small[0].name
    shutil.copytree(small[0], copy)
    return copy


def test_a_run_leaves_records_tables_and_plots_whatever_the_locale_and_terminal(small: tuple[Path, str]) -> None:
    folder, said = small
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    plots = {f"forward/{kind}.{ending}" for kind in ("time", "memory") for ending in ("png", "svg", "pdf")}
    assert {"run.json", "records.jsonl", "table.csv", "table.md", "table.tex", *plots} <= names
    found = statuses(read(folder))
    assert found == {"mine:Mine": {"ok"}, "faulty:Slow": {"ok", "budget"}, "faulty:Raises": {"error"}}
    assert "mine:Mine" in said
    assert said.isascii()
    assert "\x1b[" not in said
    assert "forward, causal" in (folder / "table.md").read_text(encoding="utf-8")


def test_report_remakes_everything_from_the_records_alone(here: Run, copied: Path) -> None:
    (copied / "run.lock").unlink()
    before = {f: f.read_bytes() for f in copied.rglob("*") if f.is_file()}
    for file in before:
        if file.name not in {"run.json", "records.jsonl"}:
            file.unlink()
    fine(here("report", str(copied)))
    after = {f: f.read_bytes() for f in copied.rglob("*") if f.is_file()}
    assert after.keys() == before.keys()
    text = {f for f in before if f.suffix in {".csv", ".md", ".tex", ".svg", ".txt"}}
    assert {f: after[f] for f in text} == {f: before[f] for f in text}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "told"),
    [([signal.SIGINT], True), ([signal.SIGTERM], True), ([signal.SIGHUP], True), ([signal.SIGINT, signal.SIGINT], False)],
    ids=["Ctrl-C", "SIGTERM", "a closed terminal", "Ctrl-C twice"],
)
def test_an_interrupted_run_saves_says_how_to_go_on_and_can(
    numbers: list[signal.Signals], told: bool, start: Start, attnbench: Run, only_run: Find, suite: Write
) -> None:
    # tests that were begun by nohup ignore a closed terminal, and so would the run
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = start("run", suite(BRIEF))
    signal.signal(signal.SIGHUP, before)
    wait_for_records(only_run, 2)
    for number in numbers:
        process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + numbers[0], err
    assert not told or f"attnbench run --resume {only_run().relative_to(only_run().parents[2])}" in err
    assert no_orphans()
    fine(attnbench("run", "--resume", str(only_run())))
    assert set(finished(read(only_run())).values()) == {1}


@pytest.mark.slow
def test_a_second_run_is_refused_and_names_the_first(start: Start, attnbench: Run, only_run: Find, suite: Write) -> None:
    # there is enough to do that others can look meanwhile
    process = start("run", suite(BRIEF.replace("replicates: 1", "replicates: 9")))
    wait_for_records(only_run, 1)
    done = attnbench("run", "--resume", str(only_run()))
    assert (done.returncode, f"process {process.pid} on" in done.stderr) == (2, True)
    process.kill()
    process.communicate()
    again = fine(attnbench("run", "--resume", str(only_run())))
    assert f"took over the lock of process {process.pid}" in again.stderr
    assert set(finished(read(only_run())).values()) == {1}


def test_a_spoilt_record_is_set_aside_with_the_reason_and_its_cell_measured_again(here: Run, copied: Path) -> None:
    file = copied / "records.jsonl"
    before = without_checks(read(copied))
    lines = file.read_text().splitlines()
    newer = json.dumps({**json.loads(lines[3]), "schema_version": 99})
    file.write_text("\n".join([*lines[:2], lines[2][:50], newer, *lines[4:-1], lines[-1][:30]]))
    assert "newer attnbench (schema 99" in fine(here("run", "--resume", str(copied))).stderr
    assert without_checks(read(copied)) == before
    assert "schema 99" in (copied / "records.aside").read_text()


@pytest.mark.slow
def test_what_failed_is_tried_again_only_when_asked_for(attnbench: Run, suite: Write, only_run: Find, tmp_path: Path) -> None:
    luck = f"""from plain import Plain
from pathlib import Path


class Lucky(Plain):
    def forward(self, *inputs):
        if self.late and not Path({str(tmp_path / "luck")!r}).exists():
            raise ValueError("out of luck")
        return super().forward(*inputs)
"""
    (tmp_path / "lucky.py").write_text(luck)
    fine(attnbench("run", suite(BRIEF.replace('"plain:Plain"', '"plain:Plain", "lucky:Lucky"'))))
    before = statuses(read(only_run()))
    assert before["lucky:Lucky"] == {"error"}
    (tmp_path / "luck").touch()
    fine(attnbench("run", "--resume", str(only_run())))
    assert statuses(read(only_run())) == before
    for wrong in ("error,lost", "unsupported"):
        assert "--retry" in attnbench("run", "--resume", str(only_run()), "--retry", wrong).stderr
    fine(attnbench("run", "--resume", str(only_run()), "--retry", "error"))
    with (only_run() / "table.csv").open() as table:
        shown = {row["method"]: row["status"] for row in csv.DictReader(table)}
    assert (shown["lucky:Lucky"], shown["faulty:Raises"]) == ("ok", "error")
    again = finished(read(only_run()))
    fine(attnbench("run", "--resume", str(only_run())))
    assert finished(read(only_run())) == again


def test_a_run_whose_suite_or_method_changed_is_not_continued(here: Run, copied: Path, suite: Write) -> None:
    info = json.loads((copied / "run.json").read_text())
    now = info["methods"]["mine:Mine"]["version"]
    info["methods"]["mine:Mine"]["version"] = "an older one"
    (copied / "run.json").write_text(json.dumps(info))
    done = here("run", suite(OWN.replace("D: 16", "D: 32")), "--resume", str(copied))
    assert done.returncode == 2
    assert "suite.axes.D: [16] then, [32] now" in done.stderr
    assert f"method.mine:Mine: 'an older one' then, '{now}' now" in done.stderr


def test_a_run_that_measured_nothing_has_its_rows_and_does_not_end_well(here: Run, only_run: Find, suite: Write) -> None:
    done = here("run", suite(ONE.replace("plain:Plain", "faulty:Raises")))
    assert done.returncode == 1, done.stderr
    assert "no cell was measured" in done.stderr
    assert statuses(read(only_run())) == {"faulty:Raises": {"error"}}
    assert (only_run() / "table.md").exists()


@pytest.mark.slow
def test_a_method_killed_while_it_is_asked_is_asked_again(attnbench: Run, only_run: Find, suite: Write, tmp_path: Path) -> None:
    def kill(count: int) -> dict[str, str]:
        """The environment in which so many processes that import the method are killed outright."""
        (tmp_path / "kills").write_text(str(count))
        return {"ATTNBENCH_TEST_KILLS": str(tmp_path / "kills")}

    suite(ONE.replace('"plain:Plain"', '"plain:Plain", "import_killed:Method"'))
    fine(attnbench("run", "s.yaml", "--results", "twice", **kill(2)))
    (twice,) = (tmp_path / "twice").glob("*/*")
    assert statuses(read(twice)) == {"plain:Plain": {"ok"}, "import_killed:Method": {"ok"}}

    fine(attnbench("run", "s.yaml", **(never := kill(3))))
    before = read(only_run())
    assert statuses(before) == {"plain:Plain": {"ok"}, "import_killed:Method": {"crashed"}}
    assert set(RunFolder(only_run()).info().methods) == {"plain:Plain"}
    fine(attnbench("run", "--resume", str(only_run()), **never))
    assert set(RunFolder(only_run()).info().methods) == {"plain:Plain", "import_killed:Method"}
    assert read(only_run()) == before
    kill(3)
    silent = attnbench("run", "--resume", str(only_run()), **never)
    assert silent.returncode == 2
    assert "what could be asked then, and cannot now:\n  method.import_killed:Method: SIGKILL" in silent.stderr


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_run_can_go_on(attnbench: Run, only_run: Find, suite: Write, tmp_path: Path) -> None:
    # a limit on file size, as a full disk would: the write that exceeds it fails
    (tmp_path / "sitecustomize.py").write_text(
        "import resource, signal, sys\n"
        "if '--resume' not in sys.orig_argv and 'run' in sys.orig_argv:\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))\n"
    )
    done = attnbench("run", suite(SMALL), PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
    assert done.returncode == 1, done.stderr
    assert "what was recorded so far is kept" in done.stderr
    assert "Traceback" not in done.stderr
    recorded = finished(read(only_run()))
    assert recorded
    fine(attnbench("run", "--resume", str(only_run())))
    assert recorded.keys() < finished(read(only_run())).keys()
    assert set(finished(read(only_run())).values()) == {1}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("amount", "says"),
    [(("--kills", "15"), "15 kills"), (("--minutes", "2"), "none is told from the undisturbed run")],
    ids=["killed", "killed, full and loaded"],
)
def test_runs_under_random_faults_end_whole_and_with_the_numbers_of_undisturbed_ones(
    amount: tuple[str, str], says: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.cli.random_faults", str(tmp_path), "1", *amount]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout.splitlines()[-1]
