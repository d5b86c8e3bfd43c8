"""`attnbench site`: from a folder of runs to a folder of pages, and clear words for bad input."""

from pathlib import Path

import pytest

from attnbench.schema.outcome import Failed, Status
from tests.cli.conftest import NIGHTLY, InfoOf, Refused, Run, Stored, as_record, keep, times


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(nightly: InfoOf, tmp_path: Path) -> Stored:
    """Write a run of a day in which the last cell failed."""

    def _write(day: int, suite: str = "nightly") -> Path:
        info = nightly(day, suite)
        records = [
            as_record(cell, times(*(1e-5 * cell.problem.N + 1e-6 * (replicate + i) for i in range(3))), replicate)
            for replicate in range(2)
            for cell in NIGHTLY[:-1]
        ]
        records.append(as_record(NIGHTLY[-1], Failed(status=Status.OOM_HOST, reason="memory limit reached")))
        return keep(tmp_path / "results" / suite / info.id, info, records)

    return _write


def test_a_folder_of_runs_becomes_a_folder_of_pages(run: Run, write: Stored, tmp_path: Path) -> None:
    for day in (0, 1):
        write(day)
    write(2, suite="other")
    (tmp_path / "results/broken").mkdir()
    (tmp_path / "results/broken/run.json").write_text("{")
    done = run("site", "results", "public/site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 runs of 2 suites on 1 machine, 2026-01-01 to 2026-01-03", "public/site/index.html"]
    assert done.stderr.startswith("left out: broken: run.json cannot be read: ")
    site = tmp_path / "public/site"
    shelf = "amd-epyc-9b14-2-cores-2-threads"
    assert (site / "nightly" / shelf / "trend.html").is_file()
    assert "linear.full" in (site / "other" / shelf / "20260103-030405-000002/index.html").read_text(encoding="utf-8")
    assert "4 cells: 3 ok, 1 failed" in (site / "index.html").read_text(encoding="utf-8")
    assert not list(site.rglob("*.jsonl"))


def test_a_second_time_it_is_brought_up_to_date_and_the_records_go_along_where_asked_for(
    run: Run, write: Stored, tmp_path: Path
) -> None:
    folder = write(1)
    assert run("site", "results", "site").returncode == 0
    write(2)
    done = run("site", "results", "site", "--records")
    assert done.stdout.startswith("2 runs of 1 suite")
    copies = {file.read_bytes() for file in (tmp_path / "site").rglob("records.jsonl")}
    assert (folder / "records.jsonl").read_bytes() in copies
    assert sorted(each.name for each in tmp_path.iterdir()) == ["results", "site"]


def test_a_folder_of_the_users_is_refused_and_left_alone(refused: Refused, write: Stored, tmp_path: Path) -> None:
    write(1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work")
    words = refused("site", "results", "mine")
    assert "mine holds thesis.tex, which attnbench site did not make" in words
    assert (tmp_path / "mine/thesis.tex").read_text() == "years of work"


def test_where_nothing_can_be_written_it_is_an_error_of_the_disk(run: Run, write: Stored, tmp_path: Path) -> None:
    write(1)
    (tmp_path / "file").write_text("")
    done = run("site", "results", "file/site")
    assert done.returncode == 1
    assert "cannot write file/site: Not a directory" in done.stderr
