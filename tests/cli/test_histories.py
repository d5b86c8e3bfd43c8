"""`attnbench history`, `trend` and `site`: from run folders to what changed, and to a folder of pages."""

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.store.lock import locked
from tests.cli.conftest import InfoOf, Refused, Run, Stored, as_record, fine, keep, memory, times

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def write(place: None, info_of: InfoOf) -> Stored:
    """Write a run, so many days after the first of January; `factors` are those of the cells, 0 for one that fails."""
    cells = [Cell(method=method, problem=Problem(N=N)) for method in ("linear.full", "softmax.sdpa") for N in (512, 1024)]

    def _write(day: int, factors: Sequence[float] = (1.0,) * 4, replicates: int = 2, suite: str = "nightly") -> Path:
        month, date = divmod(day, 28)
        facts = {"processor": "AMD EPYC 9B14", "cores": 2, "threads": 2, "torch": "2.13.0" if day >= 20 else "2.12.1"}
        about = {"paper": "", "tier": "eager", "causality": "full", "summary": "", "version": "0"}
        info = info_of(
            cells,
            {"name": suite, "replicates": 2},
            id=f"2026{month + 1:02}{date + 1:02}-030405-{day:06x}",
            started=f"2026-{month + 1:02}-{date + 1:02}T03:04:05+00:00",
            environment=facts,
            git={"commit": f"{day:02}" * 20, "dirty": False},
            methods={cell.method: {"method": cell.method, **about} for cell in cells},
        )
        records = list[Record]()
        for number, (cell, factor) in enumerate(zip(cells, factors, strict=True)):
            if not factor:
                records.append(as_record(cell, Failed(status=Status.OOM_HOST, reason="memory limit reached")))
                continue
            for replicate in range(replicates):
                wobble = 1 + 0.01 * random.Random(f"{info.id} {number} {replicate}").uniform(-1, 1)
                records.append(as_record(cell, times(*[0.010 * (number + 1) * factor * wobble] * 3), replicate))
            records.append(as_record(cell, memory(1e9 * factor), phase=Pass.MEMORY))
        return keep(Path("results") / suite / info.id, info, records)

    return _write


@pytest.fixture
def thirty(write: Stored) -> None:
    """Thirty runs: from the twentieth on one cell is slower, with another torch; the last cell fails from the 25th on."""
    for day in range(30):
        write(day, (1.2 if day >= 20 else 1.0, 1.0, 1.0, float(day < 25)))


@pytest.mark.usefixtures("thirty")
def test_results_are_a_history_as_they_are_and_the_second_look_reads_no_run_again(run: Run, tmp_path: Path) -> None:
    done = fine(run("trend", "results", "--html", "trend.html", "--png", "trend.png"))
    assert "reading 30 new runs" in done.stderr
    assert "1 LOST, 1 SLOWER; 2 of 4 series without a change: " in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-2:] == ["trend.html", "trend.png"]
    assert (tmp_path / "trend.html").read_text(encoding="utf-8").count("<img ") == 4
    assert (tmp_path / "trend.png").read_bytes().startswith(b"\x89PNG")
    again = run("trend", "results")
    assert (again.stdout, again.stderr) == (done.stdout.removesuffix("trend.html\ntrend.png\n"), "")
    (index,) = (tmp_path / "cache" / "attnbench").glob("history-*.sqlite")
    with sqlite3.connect(index) as base:
        assert base.execute("select count(*) from points").fetchone() == (120,)
    base.close()


@pytest.mark.usefixtures("thirty")
def test_a_regression_fails_only_where_that_is_asked_for_and_only_of_what_is_looked_at(run: Run, write: Stored) -> None:
    fine(run("trend", "results"))
    for words, code in {
        "": 1,
        "--since 2026-02-05": 0,
        "--margin 30% --method linear.*": 0,
        # a fall of what should be high is one too
        "--method linear.* --metric throughput": 1,
        "--method linear.* --metric accuracy": 0,
    }.items():
        assert run("trend", "results", "--fail-on", "regression", *words.split()).returncode == code, words
    write(40, suite="other")
    assert "2 series" in run("trend", "results", "--method", "softmax*").stdout
    assert "8 series" in run("trend", "results").stdout
    assert "30 runs, 2026-01-01 to 2026-02-02; 4 series" in run("trend", "results", "--suite", "nightly").stdout
    wrong = run("trend", "results", "--method", "linear.ful")
    assert (wrong.returncode, "did you mean 'linear.full'?" in wrong.stderr) == (2, True)


@pytest.mark.usefixtures("thirty")
def test_the_list_has_a_row_for_every_run(run: Run, tmp_path: Path) -> None:
    # a name may be bytes that are no text
    (tmp_path / "results/nightly/broken\udce9").mkdir()
    (tmp_path / "results/nightly/broken\udce9/run.json").write_text("{")
    lines = run("history", "list", "results").stdout.splitlines()
    assert len(lines) == 2 + 31
    assert lines[2].split()[:6] == ["nightly", "20260101-030405-000000", "2026-01-01", "03:04", "AMD", "EPYC"]
    assert lines[2].rstrip().endswith("00000000  4 ok")
    assert lines[-2].rstrip().endswith("29292929  3 ok, 1 failed")
    assert "nightly/broken" in lines[-1]
    assert "cannot be read" in lines[-1]


@pytest.mark.parametrize("to", ["kept/runs", "memory://commands/runs", "file://{here}/by-url"])
def test_runs_are_added_to_a_folder_or_a_url_and_found_again(to: str, run: Run, write: Stored, tmp_path: Path) -> None:
    folders, place = [write(1), write(2)], to.format(here=tmp_path)
    done = fine(run("history", "add", *folders, "--to", place))
    assert done.stdout.splitlines() == [f"nightly/{folder.name}" for folder in folders]
    _, _, *rows = run("history", "list", place).stdout.splitlines()
    assert [row.split()[1] for row in rows] == [folder.name for folder in folders]
    assert "2 runs" in run("trend", place).stdout


def test_a_run_that_is_not_added_leaves_a_history_as_it_was(refused: Refused, run: Run, write: Stored, tmp_path: Path) -> None:
    first, second, short = write(1), write(2), write(3, replicates=1)
    run("history", "add", first, "--to", "kept")
    add = ("history", "add", "--to", "kept")
    assert "is in kept already" in refused(*add, second, first)
    assert "are the same run" in refused(*add, second, second)
    words = refused(*add, second, short)
    assert "is not whole: 4 cells with fewer than 2 replicates" in words
    assert f"attnbench run --resume {short}" in words
    with locked(second / "run.lock"):
        assert "still being written" in refused(*add, second)
    assert [path.name for path in (tmp_path / "kept/nightly").iterdir()] == [first.name]


def test_a_folder_of_runs_becomes_a_folder_of_pages_which_is_kept_up_to_date_and_nothing_else_touched(
    run: Run, refused: Refused, write: Stored, tmp_path: Path
) -> None:
    for day, suite in enumerate(("nightly", "other")):
        write(day, suite=suite)
    (tmp_path / "results/broken").mkdir()
    (tmp_path / "results/broken/run.json").write_text("{")
    done = fine(run("site", "results", "public/site"))
    assert done.stdout.splitlines() == ["2 runs of 2 suites on 1 machine, 2026-01-01 to 2026-01-02", "public/site/index.html"]
    assert done.stderr.startswith("left out: broken: run.json cannot be read: ")
    site = tmp_path / "public/site"
    assert not list(site.rglob("*.jsonl"))
    write(2)
    assert run("site", "results", "public/site", "--records").stdout.startswith("3 runs of 2 suites")
    assert len(list(site.rglob("records.jsonl"))) == 3
    assert {each.name for each in tmp_path.iterdir()} <= {"results", "public", "cache"}
    assert "results holds broken/run.json, which attnbench site did not make" in refused("site", "public", "results")
