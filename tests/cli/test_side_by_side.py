"""Runs side by side, for real: in lanes, as shards that become one run, as parts of one folder, and waiting for each other."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.cli.terminal import BUSY
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, committed, fine, wait_for_records
from tests.cli.test_run import BRIEF, finished, no_orphans, read, statuses, without_checks

Measuring = Callable[..., subprocess.Popen[bytes]]
SUITE = BRIEF.replace("N: [65, 96]", "N: [65, 80, 96]")
WHOLE = {"plain:Plain": {"ok"}, "faulty:Raises": {"error"}}


def cores(records: list[Record]) -> set[tuple[int, str]]:
    """By the length that was measured; a bundle on both would be there twice."""
    return {(r.job.cell.problem.N, r.device) for r in records if r.seconds is not None and r.job.phase is not Pass.CHECK}


@pytest.mark.slow
def test_in_two_lanes_each_bundle_stays_on_its_own_cores(attnbench: Run, suite: Write, only_run: Find) -> None:
    fine(attnbench("run", suite(BRIEF.replace("replicates: 1", "replicates: 3")), "--lanes", "2"))
    records, info = read(only_run()), RunFolder(only_run()).info()
    assert sorted(device for _, device in cores(records)) == ["cores 0", "cores 1"]
    assert {r.outcome.facts["threads"] for r in records if r.ok and r.job.phase is Pass.TIME} == {1}
    assert (info.environment["lanes"], info.environment["cores"]) == (2, 1)


@pytest.mark.slow
def test_an_interruption_ends_all_lanes_and_loses_nothing(start: Start, attnbench: Run, only_run: Find, suite: Write) -> None:
    process = start("run", suite(BRIEF), "--lanes", "2")
    wait_for_records(only_run, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=8)
    assert process.returncode == 130, err
    assert "go on with: attnbench run --resume" in err
    assert no_orphans()
    before = read(only_run())
    cut = [r for r in before if isinstance(r.outcome, Failed) and r.outcome.status is Status.INTERRUPTED]
    assert 1 <= len({r.device for r in cut}) == len(cut)
    other = attnbench("run", "--resume", str(only_run()))
    assert other.returncode == 2
    assert "environment.lanes: 2 then, None now" in other.stderr
    fine(attnbench("run", "--resume", str(only_run()), "--lanes", "2"))
    records = read(only_run())
    assert records[: len(before)] == before
    assert set(finished(records).values()) == {1}
    assert len(cores(records)) == 2


@pytest.mark.slow
def test_two_shards_that_are_measured_apart_merge_to_one_run(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        fine(attnbench("run", suite(SUITE), "--shard", shard, "--results", f"shard{shard[0]}"))
    first, second = (next((tmp_path / f"shard{n}").glob("*/*")) for n in "12")
    assert {cell.problem.N for cell in RunFolder(first).info().cells} == {65, 96}
    assert RunFolder(second).info().shard == "2/2"
    before = {file: file.read_bytes() for folder in (first, second) for file in folder.rglob("*") if file.is_file()}
    done = fine(attnbench("merge", str(first), str(second)))
    assert "without" not in done.stderr
    (merged,) = (tmp_path / "results").glob("*/*")
    assert statuses(read(merged)) == WHOLE
    assert set(without_checks(read(merged)).values()) == {1}
    assert (merged / "index.html").exists()
    assert {file: file.read_bytes() for file in before} == before
    fine(attnbench("history", "add", str(first), str(second), "--to", "shards"))
    fine(attnbench("merge", (tmp_path / "shards").as_uri(), "--results", "stored"))
    assert statuses(read(next((tmp_path / "stored").glob("*/*")))) == WHOLE
    alone = fine(attnbench("merge", str(first), "--results", "alone"))
    assert "merged without 2/2, which nobody gave" in alone.stderr
    twice = attnbench("merge", str(first), str(merged))
    assert twice.returncode == 2
    assert "both measured the same 4 cells; merge only one of them" in twice.stderr
    fine(attnbench("run", "s.yaml", "--methods", "plain:Plain", "--N", "80", "--results", "unlike"))
    unlike = attnbench("merge", str(first), str(next((tmp_path / "unlike").glob("*/*"))))
    assert unlike.returncode == 2
    assert "are not parts of one run:\n  suite.axes.N: [65, 80, 96] then, [80] now" in unlike.stderr


@pytest.fixture
def begun(start: Start, suite: Write, only_run: Find) -> Path:
    """The folder of a run that was handed out and not begun."""
    process = start("run", suite(SUITE.replace("replicates: 1", "replicates: 3")))
    wait_for_records(only_run, 1)
    process.kill()
    process.communicate()
    (only_run() / "records.jsonl").unlink()
    return only_run()


@pytest.mark.slow
def test_parts_of_one_folder_are_measured_by_processes_of_their_own(
    begun: Path, start: Start, attnbench: Run, run: Run
) -> None:
    killed = start("run", "--resume", str(begun), "--shard", "1/2")
    wait_for_records(lambda: begun, 2)
    for words in (("--shard", "1/2"), ()):
        done = run("run", "--resume", begun, *words)
        assert done.returncode == 2
        assert f"is being written by process {killed.pid}" in done.stderr
    killed.kill()
    killed.communicate()
    assert no_orphans()
    for shard in ("2/2", "1/2"):
        fine(attnbench("run", "--resume", str(begun), "--shard", shard))
    assert {"records.1.jsonl", "records.2.jsonl", "run.1.json", "run.2.json"} <= {file.name for file in begun.iterdir()}
    assert not (begun / "records.jsonl").exists()
    records = read(begun)
    assert statuses(records) == WHOLE
    assert set(without_checks(records).values()) == {1}
    # who goes on with the whole finds nothing left to do
    fine(attnbench("run", "--resume", str(begun)))
    assert read(begun) == records
    assert attnbench("verify", str(begun)).stdout.count("records of this run, all of one environment") == 1


@pytest.mark.slow
def test_a_very_large_run_is_not_reported(here: Run, suite: Write, only_run: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.library.runs._LARGE", 2)
    # methods are asked about a few cells at a time
    monkeypatch.setattr("attnbench.session.scout._AT_ONCE", 2)
    done = fine(here("run", suite(SUITE.replace(', "faulty:Raises"', ""))))
    assert done.stdout == ""
    folder = only_run()
    name = folder.relative_to(folder.parents[2])
    assert f"3 cells: tables, plots and a page are made by attnbench report {name}" in done.stderr
    assert {file.name for file in folder.iterdir()} == {"run.json", "records.jsonl", "run.lock"}
    assert statuses(read(folder)) == {"plain:Plain": {"ok"}}
    assert set(RunFolder(folder).info().costs) == {cell.key for cell in RunFolder(folder).info().cells}
    fine(here("report", str(folder)))
    assert (folder / "table.csv").exists()


BUSY_SUITE = """
name: s
axes: {N: [64, 128], H: 1, D: 8}
methods: ["plain:Plain", "lengths:Level"]
budget: {seconds: 0.05}
replicates: 1
report: {plots: []}
"""


@pytest.mark.parametrize(
    "words",
    [
        "run s.yaml",
        "doctor",
        "check plain:Plain --N 64",
        "selfcheck --method plain:Plain --verdicts 1 --replicates 2",
        "maxlen s.yaml --method plain:Plain --limit 256",
        "crossover s.yaml --measure --of plain:Plain --over lengths:Level",
        "gate s.yaml --base HEAD",
        "compare --live HEAD --suite s.yaml",
    ],
)
def test_who_does_not_wait_leaves_at_once(words: str, here: Run, suite: Write, measuring: Measuring, tmp_path: Path) -> None:
    suite(BUSY_SUITE)
    committed(tmp_path, "a suite")
    other = measuring()
    done = here(*words.split(), "--no-wait")
    assert done.returncode == BUSY, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: process {other.pid} (attnbench; since 20")
    assert not (tmp_path / "results").exists(), "nothing was begun"


@pytest.mark.slow
def test_a_run_that_waits_says_for_whom_and_goes_on(start: Start, suite: Write, measuring: Measuring, tmp_path: Path) -> None:
    other = measuring()
    process = start("run", suite(BUSY_SUITE), TMPDIR=str(tmp_path))
    assert process.stderr is not None
    said = next(line for line in process.stderr if line.startswith("waiting for "))
    assert said.startswith(f"waiting for process {other.pid} (attnbench; since 20")
    other.kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
