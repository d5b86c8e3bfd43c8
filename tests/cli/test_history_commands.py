"""`attnbench history` and `attnbench trend`: from run folders to what changed, with clear words for bad input."""

import random
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.store.lock import FolderLock
from tests.cli.conftest import NIGHTLY, InfoOf, Refused, Run, Stored, as_record, keep, memory, times


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(nightly: InfoOf) -> Stored:
    """Write a run of a day; `factors` are those of the cells, 0 for one that fails."""

    def _write(
        results: Path, day: int, factors: Sequence[float] = (1.0,) * 4, noise: float = 0.0, replicates: int = 2, **run: str
    ) -> Path:
        info, records = nightly(day, **run), list[Record]()
        for number, (cell, factor) in enumerate(zip(NIGHTLY, factors, strict=True)):
            if not factor:
                records.append(as_record(cell, Failed(status=Status.OOM_HOST, reason="memory limit reached")))
                continue
            for replicate in range(replicates):
                wobble = 1 + noise * random.Random(f"{info.id} {number} {replicate}").uniform(-1, 1)
                records.append(as_record(cell, times(*[0.010 * (number + 1) * factor * wobble] * 3), replicate))
            records.append(as_record(cell, memory(1e9 * factor), phase=Pass.MEMORY))
        return keep(results / info.suite.name / info.id, info, records)

    return _write


@pytest.fixture
def results(write: Stored, tmp_path: Path) -> Path:
    """Thirty runs: from the twentieth on one cell is slower, with another torch; the last cell fails from the 25th on."""
    for day in range(30):
        factors = [1.2 if day >= 20 else 1.0, 1.0, 1.0, 0.0 if day >= 25 else 1.0]
        write(tmp_path / "results", day, factors, noise=0.01, torch="2.13.0" if day >= 20 else "2.12.1")
    return tmp_path / "results"


def test_results_are_a_history_as_they_are(run: Run, results: Path) -> None:
    done = run("trend", "results")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "nightly, 2026-01-21, run 20260121-030405-000014, commit 19191919..20202020" in text
    assert "torch 2.12.1 → 2.13.0" in text
    assert re.search(r"SLOWER linear.full, N=512 (9.9|10.0)\d? ms 1[12].\d ms 1.(19|20)× ±0.\d%", text)
    assert "LOST softmax.sdpa, N=1k" in text
    assert "1 LOST, 1 SLOWER; 2 of 4 series without a change: " in text


def test_the_second_look_reads_no_run_again(run: Run, results: Path, tmp_path: Path) -> None:
    first = run("trend", "results")
    assert "reading 30 new runs" in first.stderr
    second = run("trend", "results")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    (index,) = (tmp_path / "cache" / "attnbench").glob("history-*.sqlite")
    with sqlite3.connect(index) as base:
        assert base.execute("select count(*) from points").fetchone() == (120,)
    base.close()


def test_a_regression_fails_only_where_that_is_asked_for(run: Run, results: Path) -> None:
    assert run("trend", "results").returncode == 0
    assert run("trend", "results", "--fail-on", "regression").returncode == 1
    assert run("trend", "results", "--fail-on", "regression", "--since", "2026-02-05").returncode == 0
    assert run("trend", "results", "--fail-on", "regression", "--margin", "30%", "--method", "linear.*").returncode == 0


def test_only_one_method_or_suite_is_looked_at(write: Stored, run: Run, results: Path) -> None:
    write(results, 40, suite="other")
    assert "2 series" in run("trend", "results", "--method", "softmax*").stdout
    assert "8 series" in run("trend", "results").stdout
    assert "30 runs, 2026-01-01 to 2026-02-02; 4 series" in run("trend", "results", "--suite", "nightly").stdout


def test_a_fall_of_what_should_be_high_is_a_regression(run: Run, results: Path) -> None:
    words = ("trend", "results", "--method", "linear.*", "--fail-on", "regression", "--metric")
    assert run(*words, "throughput").returncode == 1
    assert run(*words, "accuracy").returncode == 0


def test_a_page_and_a_picture_are_written(run: Run, results: Path, tmp_path: Path) -> None:
    done = run("trend", "results", "--html", "trend.html", "--png", "trend.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["trend.html", "trend.png"]
    assert (tmp_path / "trend.html").read_text(encoding="utf-8").count("<img ") == 4
    assert (tmp_path / "trend.png").read_bytes().startswith(b"\x89PNG")


def test_the_list_has_a_row_for_every_run(run: Run, results: Path) -> None:
    (results / "nightly" / "broken").mkdir()
    (results / "nightly" / "broken" / "run.json").write_text("{")
    lines = run("history", "list", "results").stdout.splitlines()
    assert len(lines) == 2 + 31
    assert lines[2].split()[:6] == ["nightly", "20260101-030405-000000", "2026-01-01", "03:04", "AMD", "EPYC"]
    assert lines[2].rstrip().endswith("00000000  4 ok")
    assert lines[-2].rstrip().endswith("29292929  3 ok, 1 failed")
    assert "nightly/broken" in lines[-1]
    assert "cannot be read" in lines[-1]


def test_runs_are_added_and_found_again(run: Run, results: Path, tmp_path: Path) -> None:
    folders = sorted((results / "nightly").iterdir())
    done = run("history", "add", str(folders[0]), str(folders[1]), "--to", "kept/runs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"nightly/{folder.name}" for folder in folders[:2]]
    assert sorted(path.name for path in (tmp_path / "kept/runs/nightly").iterdir()) == [folder.name for folder in folders[:2]]
    assert len(run("history", "list", "kept/runs").stdout.splitlines()) == 4


def test_a_history_may_be_a_url(run: Run, results: Path, tmp_path: Path) -> None:
    folder = min((results / "nightly").iterdir())
    for url in ("memory://commands/runs", f"file://{tmp_path}/by-url"):
        assert run("history", "add", str(folder), "--to", url).returncode == 0
        assert folder.name in run("history", "list", url).stdout
        assert "1 runs" in run("trend", url).stdout


def test_what_is_there_already_is_refused_before_anything_is_copied(
    refused: Refused, run: Run, results: Path, tmp_path: Path
) -> None:
    first, second, *_ = sorted((results / "nightly").iterdir())
    run("history", "add", str(first), "--to", "kept")
    assert "is in kept already" in refused("history", "add", str(second), str(first), "--to", "kept")
    assert len(list((tmp_path / "kept/nightly").iterdir())) == 1
    assert "are the same run" in refused("history", "add", str(second), str(second), "--to", "kept")


def test_a_run_that_is_not_whole_or_is_being_written_is_refused(refused: Refused, write: Stored, tmp_path: Path) -> None:
    short = write(tmp_path / "short", 1, replicates=1)
    words = refused("history", "add", str(short), "--to", "kept")
    assert "is not whole: 4 cells have fewer than 2 replicates" in words
    assert f"attnbench run --resume {short}" in words
    whole = write(tmp_path / "whole", 2)
    with FolderLock(whole / "run.lock"):
        assert "still being written" in refused("history", "add", str(whole), "--to", "kept")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trend", "nowhere"], "nowhere is not a folder"),
        (["trend", "cache"], "cache holds no run; a history is a folder of <suite>/<run id>/ folders"),
        (["history", "list", "nonsense://x"], "nonsense:// is no place for a history"),
        (["trend", "results", "--suite", "nigthly"], "did you mean 'nightly'?"),
        (["trend", "results", "--method", "linear.ful"], "did you mean 'linear.full'?"),
        (["trend", "results", "--metric", "tiem"], "--metric tiem: did you mean 'time'? there are: "),
        (["trend", "results", "--margin", "much"], "--margin much: write a share"),
        (["trend", "results", "--since", "yesterday"], "--since yesterday: write a date as 2026-01-31"),
        (["trend", "results", "--png", "trend.jpg"], "--png trend.jpg: a picture is .png, .svg or .pdf"),
        (["trend", "results", "--html", "results/nightly/20260102-030405-000001/run.json/page.html"], "run.json is no folder"),
        (["trend", "results", "--fail-on", "anything"], "--fail-on anything: write --fail-on regression"),
    ],
)
def test_bad_input_is_refused_in_words(refused: Refused, write: Stored, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "cache").mkdir()
    write(tmp_path / "results", 1)
    assert said in refused(*words)
