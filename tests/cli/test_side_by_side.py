"""Runs side by side, for real: in lanes, as shards that become one run, as parts of one folder, and waiting for each other."""

import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnbench.cli.terminal import Interrupted
from attnbench.library.merge import merge
from attnbench.places.local import Local
from attnbench.places.station import LocalStation
from attnbench.schema.errand import Pass, Surroundings
from attnbench.schema.errors import UsageError
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.session import scout
from attnbench.store.lock import LockedError, locked
from attnbench.store.run_folder import RunFolder
from attnbench.worker.portion import Portion
from tests.cli.conftest import Find, Run, Start, Stored, Write, committed, fine, wait_for_records
from tests.cli.test_run import BRIEF, ONE, finished, no_orphans, read, statuses, without_checks

Play = Callable[..., None]
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
    assert f"go on with: attnbench run --resume {only_run().relative_to(only_run().parents[2])} --lanes 2\n" in err
    assert no_orphans()
    before = read(only_run())
    cut = [r for r in before if isinstance(r.outcome, Failed) and r.outcome.status is Status.INTERRUPTED]
    assert 1 <= len({r.device for r in cut}) == len(cut)
    other = attnbench("run", "--resume", str(only_run()))
    assert (other.returncode, "environment.lanes: 2 then, None now" in other.stderr) == (2, True)
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
    assert "without" not in fine(attnbench("merge", str(first), str(second))).stderr
    (merged,) = (tmp_path / "results").glob("*/*")
    assert statuses(read(merged)) == WHOLE
    assert set(without_checks(read(merged)).values()) == {1}
    assert (merged / "index.html").exists()
    assert {file: file.read_bytes() for file in before} == before
    fine(attnbench("history", "add", str(first), str(second), "--to", "shards"))
    fine(attnbench("merge", (tmp_path / "shards").as_uri(), "--results", "stored"))
    assert statuses(read(next((tmp_path / "stored").glob("*/*")))) == WHOLE
    assert "merged without 2/2, which nobody gave" in fine(attnbench("merge", str(first), "--results", "alone")).stderr
    twice = attnbench("merge", str(first), str(merged))
    assert (twice.returncode, "both measured the same 4 cells; merge only one of them" in twice.stderr) == (2, True)
    fine(attnbench("run", "s.yaml", "--methods", "plain:Plain", "--N", "80", "--results", "unlike"))
    unlike = attnbench("merge", str(first), str(next((tmp_path / "unlike").glob("*/*"))))
    assert unlike.returncode == 2
    assert "are not parts of one run:\n  suite.axes.N: [65, 80, 96] then, [80] now" in unlike.stderr


def test_a_share_may_have_no_cell_and_is_no_less_a_run_that_is_whole_and_merged(
    here: Run, suite: Write, tmp_path: Path
) -> None:
    suite(ONE.replace('"plain:Plain"', '{name: "plain:Plain", when: N > 65}').replace("N: 65", "N: [65, 96]"))
    for number in (1, 2, 3):
        fine(here("run", "s.yaml", "--shard", f"{number}/3", "--results", f"shard{number}"))
    folders = [str(next((tmp_path / f"shard{number}").glob("*/*"))) for number in (1, 2, 3)]
    assert "without" not in fine(here("merge", *folders)).stderr
    merged = str(next((tmp_path / "results").glob("*/*")))
    has = [f"{number % 2} that shard {number + 1}/3 of the suite" for number in range(3)]
    for folder, said in zip((*folders, merged), (*has, "1 that the suite"), strict=True):
        assert f"all {said} has" in fine(here("verify", folder)).stdout
    assert "none of the runs has a record" in here("merge", folders[0]).stderr
    fine(here("run", "s.yaml", "--results", "whole"))
    (records,) = (tmp_path / "whole").glob("*/*/records.jsonl")
    records.unlink()
    fine(here("run", "--resume", str(records.parent), "--shard", "3/3"))


def test_a_run_that_was_cut_off_as_a_share_and_went_on_as_a_whole_is_merged(run: Run, stored: Stored, tmp_path: Path) -> None:
    whole = RunFolder(stored(tmp_path / "results", "one"))
    part = RunFolder(whole.path, 1)
    part.rewrite(whole.own().model_copy(update={"shard": "1/2"}))
    part.append(next(whole.own_records()))
    assert "without" not in fine(run("merge", str(whole.path), "--results", str(tmp_path / "merged"))).stderr
    (merged,) = (tmp_path / "merged").glob("*/*")
    assert len(read(merged)) == 5
    with pytest.raises(UsageError, match="both measured the same 4 cells; merge only one of them"):
        merge(whole.path, merged, results=tmp_path / "merged")
    with locked(whole.lock), pytest.raises(UsageError, match="still being written"):
        merge(whole.path, results=tmp_path / "merged")


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
        assert (done.returncode, f"is being written by process {killed.pid}" in done.stderr) == (2, True)
    with pytest.raises(LockedError), locked(begun / "run.lock"):
        pass
    killed.kill()
    killed.communicate()
    assert no_orphans()
    with locked(begun / "run.lock"):
        assert "is being written by process" in run("run", "--resume", begun, "--shard", "2/2").stderr
    for shard in ("2/2", "1/2"):
        fine(attnbench("run", "--resume", str(begun), "--shard", shard))
    assert {"records.1.jsonl", "records.2.jsonl", "run.1.json", "run.2.json"} <= {file.name for file in begun.iterdir()}
    assert not (begun / "records.jsonl").exists()
    records = read(begun)
    assert statuses(records) == WHOLE
    assert set(without_checks(records).values()) == {1}
    other, twice = run("run", "--resume", begun, "--shard", "2/3"), run("export", begun, "--to", "parquet-records")
    assert (other.returncode, "was shared out otherwise" in other.stderr) == (2, True)
    assert (twice.returncode, "and would count twice" in twice.stderr) == (2, True)
    # who goes on with the whole finds nothing left to do
    fine(attnbench("run", "--resume", str(begun)))
    assert read(begun) == records
    assert attnbench("verify", str(begun)).stdout.count("records of this run, of one environment") == 1


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
    merged = fine(here("merge", str(folder), "--results", "merged"))
    assert (merged.stdout, "3 cells: tables, plots and a page are made by" in merged.stderr) == ("", True)
    assert not [*folder.parents[2].glob("merged/*/*/table.csv")]
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
    assert done.returncode == 75, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: process {other.pid} (attnbench; since 20")
    assert not (tmp_path / "results").exists(), "nothing was begun"


@pytest.fixture
def gpus(here: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `attnbench …` as if there were GPUs of one kind, GPU-0 and GPU-1; what they do is done on the CPU."""
    survey = scout._survey

    def surveyed(device: str, ceilings: tuple[str, ...], station: LocalStation) -> Surroundings:
        found = survey("cpu", ceilings, station)
        facts = {**found.facts, "gpu_uuid": f"GPU-{station.portion.gpu}"}
        # a device that is named by its number is never measured on
        return found.model_copy(update={"facts": facts, "device": device if ":" in device else "cpu"})

    monkeypatch.setattr(scout, "_survey", surveyed)
    return here


def test_who_does_not_wait_for_one_of_several_gpus_begins_nothing(
    gpus: Run, suite: Write, measuring: Measuring, tmp_path: Path
) -> None:
    other = measuring("GPU-1")
    done = gpus("run", suite(BUSY_SUITE), "--devices", "cuda:0,cuda:1", "--no-wait")
    assert (done.returncode, f"process {other.pid} " in done.stderr) == (75, True), done.stderr
    assert not (tmp_path / "results").exists()


def test_a_run_goes_on_on_another_gpu_of_the_kind_which_its_records_name(gpus: Run, suite: Write, only_run: Find) -> None:
    fine(gpus("run", suite(BUSY_SUITE), "--devices", "cuda:0"))
    file = only_run() / "records.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    fine(gpus("run", "--resume", str(only_run()), "--devices", "cuda:1"))
    *before, last = (record.device for record in read(only_run()))
    assert (set(before), last) == ({"GPU-0"}, "GPU-1")


def test_who_is_interrupted_is_told_the_words_that_go_on_in_the_same_place(
    gpus: Run, suite: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reached: list[tuple[str | None, bool]] = []

    def interrupted(*_: object) -> None:
        raise Interrupted(signal.SIGINT)

    @contextmanager
    def stations(address: str | None, *_: str, cuda: bool, fresh: bool) -> Iterator[list[LocalStation]]:
        reached.append((address, cuda))
        yield [LocalStation(Portion(gpu="0"), fresh)]

    monkeypatch.setattr(Local, "do", interrupted)
    monkeypatch.setattr("attnbench.places.ray.stations", stations)

    def told(*words: str) -> str:
        done = gpus("run", *words)
        assert done.returncode == 130, done.stderr
        return " ".join(done.stderr.partition("go on with: attnbench run --resume ")[2].partition("\n")[0].split(" ")[1:])

    assert told(suite(BUSY_SUITE), "--devices", "cuda:0,cuda:1") == "--devices cuda:0,cuda:1"
    (folder,) = (tmp_path / "results").glob("s/*")
    assert told("--resume", str(folder), "--shard", "1/2") == "--shard 1/2"
    # a lane is a GPU by what the suite says, which is not said again when the run goes on
    assert told(suite(BUSY_SUITE + "device: cuda:0\n"), "--on", "ray", "--address", "auto") == "--on ray --address auto"
    (folder,) = {*(tmp_path / "results").glob("s/*")} - {folder}
    assert told("--resume", str(folder), "--on", "ray", "--fresh", "--retry", "failed") == "--retry failed --on ray --fresh"
    assert reached == [("auto", True), (None, True)]


def test_what_slurm_refuses_is_submitted_later_and_what_no_task_began_is_measured_here(
    here: Run, suite: Write, play: Play, only_run: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(sbatch="echo 'invalid partition: none' >&2; exit 1")
    done = here("run", suite(ONE), "--device", "cpu", "--on", "slurm", "--sbatch=-p none")
    assert (done.returncode, "error: invalid partition: none; submit it again" in done.stderr) == (1, True), done.stderr
    # from wherever that is said
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    play(sbatch="echo 7")
    done = fine(here(*shlex.split(done.stderr.rpartition(": attnbench ")[2]), "--sbatch=-p all"))
    assert "submitted job 7, 1 of 1 task: " in done.stderr
    assert f"#SBATCH -p all\ncd {tmp_path} || exit 1\n" in (only_run() / "slurm.sh").read_text()
    fine(here("run", "--resume", str(only_run())))
    info, records = RunFolder(only_run()).info(), read(only_run())
    assert info.surroundings.memory_bytes > 0 < len(info.surroundings.roof)
    assert {record.environment for record in records} == {info.environment_digest} != {""}
    assert "records of this run, of one environment" in here("verify", str(only_run())).stdout


def test_a_run_that_slurm_measured_and_that_gave_nothing_does_not_end_well(
    here: Run, suite: Write, play: Play, only_run: Find
) -> None:
    play(sbatch="echo 7", squeue="")
    fine(here("run", suite(ONE.replace("plain:Plain", "faulty:Raises")), "--device", "cpu", "--on", "slurm"))
    # as the task does
    here("run", "--resume", str(only_run()), "--shard", "1/1")
    done = here("run", "--resume", str(only_run()), "--on", "slurm", "--wait")
    assert (done.returncode, "no cell was measured" in done.stderr) == (1, True), done.stderr
    assert statuses(read(only_run())) == {"faulty:Raises": {"error"}}


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
