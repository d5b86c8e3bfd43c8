"""`attnbench site`: from a folder of runs to a folder of pages, and clear words for bad input."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Job, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite

METHODS = ("linear.full", "softmax.sdpa")
CELLS = tuple(Cell(method=method, problem=Problem(N=N)) for method in METHODS for N in (512, 1024))
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)


def write(results: Path, day: int, suite: str = "nightly") -> Path:
    """A run folder in which the last cell failed."""
    facts: dict[str, Scalar | None] = {"processor": "AMD EPYC 9B14", "cores": 2, "threads": 2}
    info = RunInfo(
        id=f"202601{day:02}-030405-abcdef",
        suite=Suite.model_validate({"name": suite, "axes": {"N": [512, 1024]}, "methods": list(METHODS)}, strict=False),
        command=f"attnbench run {suite}",
        started=f"2026-01-{day:02}T03:04:05+00:00",
        environment=dict(facts),
        environment_digest="8f49cfc01159",
        git={"commit": f"{day:02}" * 20, "dirty": False},
        surroundings=Surroundings(device="cpu", facts=dict(facts), memory_bytes=2**34, roof={}),
        methods={name: description(name) for name in METHODS},
        cells=CELLS,
    )
    folder = results / suite / info.id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(info.model_dump_json())
    records = [record(cell, replicate) for replicate in range(2) for cell in CELLS[:-1]]
    records.append(record(CELLS[-1], 0, Failed(status=Status.OOM_HOST, reason="memory limit reached")))
    (folder / "records.jsonl").write_text("".join(f"{each.line()}\n" for each in records))
    return folder


def description(name: str) -> Description:
    return Description(method=name, paper="", tier="eager", causality="full", summary="", version="0")


def record(cell: Cell, replicate: int, failed: Failed | None = None) -> Record:
    times = tuple(1e-5 * cell.problem.N + 1e-6 * (replicate + i) for i in range(3))
    outcome = failed or Measured(samples={"time": Series(unit="s", values=times)})
    return Record(
        job=Job(cell=cell, replicate=replicate), outcome=outcome, environment="e", started="2026-01-01T03:04:06+00:00"
    )


def refused(done: Done) -> str:
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_folder_of_runs_becomes_a_folder_of_pages(run: Run, tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "results", day)
    write(tmp_path / "results", 3, suite="other")
    (tmp_path / "results/broken").mkdir()
    (tmp_path / "results/broken/run.json").write_text("{")
    done = run("site", "results", "public/site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 runs of 2 suites on 1 machine, 2026-01-01 to 2026-01-03", "public/site/index.html"]
    assert done.stderr.startswith("left out: broken: run.json cannot be read: ")
    site = tmp_path / "public/site"
    shelf = "amd-epyc-9b14-2-cores-2-threads"
    assert (site / "nightly" / shelf / "trend.html").is_file()
    assert (site / "other" / shelf / "20260103-030405-abcdef/index.html").is_file()
    assert "4 cells: 3 ok, 1 failed" in (site / "index.html").read_text(encoding="utf-8")
    assert not list(site.rglob("*.jsonl"))


def test_a_second_time_it_is_brought_up_to_date_and_the_records_go_along_where_asked_for(run: Run, tmp_path: Path) -> None:
    folder = write(tmp_path / "results", 1)
    assert run("site", "results", "site").returncode == 0
    write(tmp_path / "results", 2)
    done = run("site", "results", "site", "--records")
    assert done.stdout.startswith("2 runs of 1 suite")
    copies = {file.read_bytes() for file in (tmp_path / "site").rglob("records.jsonl")}
    assert (folder / "records.jsonl").read_bytes() in copies
    assert sorted(each.name for each in tmp_path.iterdir()) == ["results", "site"]


def test_a_folder_of_the_users_is_refused_and_left_alone(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "results", 1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work")
    words = refused(run("site", "results", "mine"))
    assert "mine holds thesis.tex, which attnbench site did not make" in words
    assert (tmp_path / "mine/thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "site"], "nowhere is no folder; name one with runs below it, as results"),
        (["empty", "site"], "empty holds no run; name a folder of run folders"),
        (["results", "results/site"], "results/site lies in results, whose runs are read"),
        (["results/nightly", "results"], "results/nightly lies in results, which is replaced as a whole"),
        (["results", "file"], "file is there and is no folder"),
    ],
)
def test_bad_input_is_an_error_in_words(run: Run, tmp_path: Path, words: list[str], said: str) -> None:
    write(tmp_path / "results", 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert said in refused(run("site", *words))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "file", "results"]


def test_where_nothing_can_be_written_it_is_an_error_of_the_disk(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "results", 1)
    (tmp_path / "file").write_text("")
    done = run("site", "results", "file/site")
    assert done.returncode == 1
    assert "cannot write file/site: Not a directory" in done.stderr


def test_making_a_site_never_imports_torch(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "results", 1)
    code = (
        "import sys\nfrom attnbench.cli.app import main\nsys.argv = ['attnbench', 'site', 'results', 'site']\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code, left.code\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
