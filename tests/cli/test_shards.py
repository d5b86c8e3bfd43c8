"""Shards, for real: shares of a suite that are measured apart, or as parts of one run folder, make one run."""

from pathlib import Path

import pytest

from attnbench.schema.errand import Pass
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, wait_for_records
from tests.cli.test_run import BRIEF, finished, no_orphans, read, statuses

SUITE = BRIEF.replace("N: [65, 96]", "N: [65, 80, 96]")
WHOLE = {"plain:Plain": {"ok"}, "faulty:Raises": {"error"}}


@pytest.mark.slow
def test_two_shards_that_are_measured_apart_merge_to_one_run(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        done = attnbench("run", suite(SUITE), "--shard", shard, "--results", f"shard{shard[0]}")
        assert done.returncode == 0, done.stderr
    first, second = (next((tmp_path / f"shard{n}").glob("*/*")) for n in "12")
    assert {cell.problem.N for cell in RunFolder(first).info().cells} == {65, 96}
    assert RunFolder(second).info().shard == "2/2"
    before = {file: file.read_bytes() for folder in (first, second) for file in folder.rglob("*") if file.is_file()}
    done = attnbench("merge", str(first), str(second))
    assert done.returncode == 0, done.stderr
    assert "without" not in done.stderr
    (merged,) = (tmp_path / "results").glob("*/*")
    assert statuses(read(merged)) == WHOLE
    assert set(finished([r for r in read(merged) if r.job.phase is not Pass.CHECK]).values()) == {1}
    assert (merged / "index.html").exists()
    assert {file: file.read_bytes() for file in before} == before
    for folder in (first, second):
        assert attnbench("history", "add", str(folder), "--to", "shards").returncode == 0
    stored = attnbench("merge", (tmp_path / "shards").as_uri(), "--results", "stored")
    assert stored.returncode == 0, stored.stderr
    assert statuses(read(next((tmp_path / "stored").glob("*/*")))) == WHOLE
    alone = attnbench("merge", str(first), "--results", "alone")
    assert alone.returncode == 0
    assert "merged without 2/2, which nobody gave" in alone.stderr
    twice = attnbench("merge", str(first), str(merged))
    assert twice.returncode == 2
    assert "both measured the same 4 cells; merge only one of them" in twice.stderr


@pytest.mark.slow
def test_parts_of_one_run_folder_are_measured_by_processes_of_their_own(
    start: Start, attnbench: Run, only_run: Find, suite: Write
) -> None:
    # a run that was handed out and not begun
    process = start("run", suite(SUITE))
    wait_for_records(only_run, 1)
    process.kill()
    process.communicate()
    folder = only_run()
    (folder / "records.jsonl").unlink()
    killed = start("run", "--resume", str(folder), "--shard", "1/2")
    wait_for_records(lambda: folder, 2)
    killed.kill()
    killed.communicate()
    assert no_orphans()
    for shard in ("2/2", "1/2"):
        done = attnbench("run", "--resume", str(folder), "--shard", shard)
        assert done.returncode == 0, done.stderr
    assert {"records.1.jsonl", "records.2.jsonl", "run.1.json", "run.2.json"} <= {file.name for file in folder.iterdir()}
    assert not (folder / "records.jsonl").exists()
    assert statuses(read(folder)) == WHOLE
    assert set(finished([r for r in read(folder) if r.job.phase is not Pass.CHECK]).values()) == {1}
    # who goes on with the whole finds nothing left to do
    before = len(read(folder))
    again = attnbench("run", "--resume", str(folder))
    assert again.returncode == 0, again.stderr
    assert len(read(folder)) == before
    assert attnbench("verify", str(folder)).stdout.count("records of this run, all of one environment") == 1


@pytest.mark.slow
def test_a_part_that_is_being_measured_keeps_others_out(start: Start, attnbench: Run, only_run: Find, suite: Write) -> None:
    process = start("run", suite(SUITE.replace("replicates: 1", "replicates: 9")))
    wait_for_records(only_run, 1)
    process.kill()
    process.communicate()
    (only_run() / "records.jsonl").unlink()
    part = start("run", "--resume", str(only_run()), "--shard", "1/1")
    wait_for_records(only_run, 3)
    for words in (("--shard", "1/1"), ()):
        done = attnbench("run", "--resume", str(only_run()), *words)
        assert done.returncode == 2
        assert f"is being written by process {part.pid}" in done.stderr
    part.kill()
    part.communicate()


@pytest.mark.slow
def test_runs_of_unlike_suites_are_not_merged(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    assert attnbench("run", suite(SUITE), "--methods", "plain:Plain", "--N", "65", "--results", "a").returncode == 0
    assert attnbench("run", suite(SUITE), "--methods", "plain:Plain", "--N", "96", "--results", "b").returncode == 0
    done = attnbench("merge", *(str(next((tmp_path / name).glob("*/*"))) for name in "ab"))
    assert done.returncode == 2
    assert "are not parts of one run:\n  suite.axes.N: [65] then, [96] now" in done.stderr


@pytest.mark.slow
def test_a_run_of_more_cells_than_anybody_reads_leaves_its_records_and_says_how_to_read_them(
    here: Run, suite: Write, only_run: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnbench.library.runs._LARGE", 2)
    # methods are asked about a few cells at a time
    monkeypatch.setattr("attnbench.session.scout._AT_ONCE", 2)
    done = here("run", suite(SUITE.replace(', "faulty:Raises"', "")))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    folder = only_run()
    assert (
        f"3 cells: tables, plots and a page are made by attnbench report {folder.relative_to(folder.parents[2])}" in done.stderr
    )
    assert {file.name for file in folder.iterdir()} == {"run.json", "records.jsonl", "run.lock"}
    assert statuses(read(folder)) == {"plain:Plain": {"ok"}}
    assert set(RunFolder(folder).info().costs) == {cell.key for cell in RunFolder(folder).info().cells}
    assert here("report", str(folder)).returncode == 0
    assert (folder / "table.csv").exists()
