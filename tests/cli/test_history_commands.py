"""`attnbench history` and `attnbench trend`: from run folders to what changed, with clear words for bad input."""

import json
import math
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Job, Pass, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Counter, Failed, Measured, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder

METHODS = ("linear.full", "softmax.sdpa")
CELLS = tuple(Cell(method=method, problem=Problem(N=N)) for method in METHODS for N in (512, 1024))
ABOUT = {"paper": "", "tier": "eager", "causality": "full", "summary": "", "version": "0"}
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def info(day: int, suite: str = "nightly", torch: str = "2.12.1", replicates: int = 2) -> RunInfo:
    month, date = divmod(day, 28)
    facts: dict[str, Scalar | None] = {"processor": "AMD EPYC 9B14", "cores": 2, "threads": 2, "torch": torch}
    return RunInfo(
        id=f"2026{month + 1:02}{date + 1:02}-030405-{day:06x}",
        suite=Suite.model_validate(
            {"name": suite, "axes": {"N": [512, 1024]}, "methods": list(METHODS), "replicates": replicates}, strict=False
        ),
        command="attnbench run nightly",
        started=f"2026-{month + 1:02}-{date + 1:02}T03:04:05+00:00",
        environment=facts,
        environment_digest="8f49cfc01159",
        git={"commit": f"{day:02}" * 20, "dirty": False},
        surroundings=Surroundings(device="cpu", facts=facts, memory_bytes=2**34, roof={}),
        methods={
            name: Description(method=name, paper="", tier="eager", causality="full", summary="", version="0")
            for name in METHODS
        },
        cells=CELLS,
    )


def record(cell: Cell, replicate: int, value: float, phase: Pass = Pass.TIME) -> Record:
    """NaN has no place in a record: a value of 0 stands for a failure."""
    time = {"time": Series(unit="s", values=(value,) * 3)} if phase is Pass.TIME else {}
    memory = {"host_rss_peak": Counter(bytes=int(value * 1e11), source="VmHWM")} if phase is Pass.MEMORY else {}
    outcome = Measured(samples=time, memory=memory) if value else Failed(status=Status.OOM_HOST, reason="memory limit reached")
    job = Job(cell=cell, replicate=replicate, phase=phase)
    return Record(job=job, outcome=outcome, environment="8f49cfc01159", started="2026-01-01T03:04:06+00:00")


def write(results: Path, info: RunInfo, factors: Sequence[float], noise: float = 0.0, replicates: int = 2) -> Path:
    """A run folder; `factors` are those of the cells, 0 for one that fails."""
    folder = RunFolder.create(results, info)
    lines = []
    for number, (cell, factor) in enumerate(zip(CELLS, factors, strict=True)):
        for replicate in range(replicates if factor else 1):
            wobble = 1 + noise * random.Random(f"{info.id} {number} {replicate}").uniform(-1, 1)
            lines.append(record(cell, replicate, 0.010 * (number + 1) * factor * wobble).line())
        if factor:
            lines.append(record(cell, 0, 0.010 * factor, Pass.MEMORY).line())
    (folder.path / "records.jsonl").write_text("\n".join(lines) + "\n")
    return folder.path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Thirty runs: from the twentieth on one cell is slower, with another torch; the last cell fails from the 25th on."""
    for day in range(30):
        factors = [1.2 if day >= 20 else 1.0, 1.0, 1.0, 0.0 if day >= 25 else 1.0]
        write(tmp_path / "results", info(day, torch="2.13.0" if day >= 20 else "2.12.1"), factors, noise=0.01)
    return tmp_path / "results"


def refused(done: Done) -> str:
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


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


def test_where_noise_could_hide_a_change_it_is_said_on_the_console_the_page_and_in_json(run: Run, tmp_path: Path) -> None:
    """Of the third cell ±37 % from run to run hide 60 %."""
    random_ = random.Random(3)
    for day in range(24):
        third = math.exp(random_.gauss(0, 0.37)) * (1.6 if day >= 12 else 1.0)
        write(tmp_path / "results", info(day), [1.0, 1.0, third, 1.0], noise=0.001)
    done = run("trend", "results", "--json", "trend.json", "--html", "trend.html")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "No change was found; 4 of 4 series without a change: 1 UNCLEAR, 3 SAME." in text
    least = re.search(
        r"UNCLEAR: 1 series could not have shown a change of 5%; of 1 of them the smallest that could is \+([\d,]+)%", text
    )
    assert least
    assert int(least[1]) > 60
    found = json.loads((tmp_path / "trend.json").read_text())
    assert sorted(series["state"] for series in found["series"]) == ["SAME", "SAME", "SAME", "UNCLEAR"]
    (unclear,) = (series["smallest_change_seen"] for series in found["series"] if series["state"] == "UNCLEAR")
    assert round(100 * unclear) == int(least[1])
    page = (tmp_path / "trend.html").read_text()
    assert f"UNCLEAR: the smallest change that it could show is +{least[1]}%" in page


def test_a_regression_fails_only_where_that_is_asked_for(run: Run, results: Path) -> None:
    assert run("trend", "results").returncode == 0
    assert run("trend", "results", "--fail-on", "regression").returncode == 1
    assert run("trend", "results", "--fail-on", "regression", "--since", "2026-02-05").returncode == 0
    assert run("trend", "results", "--fail-on", "regression", "--margin", "30%", "--method", "linear.*").returncode == 0


def test_only_one_method_or_suite_is_looked_at(run: Run, results: Path) -> None:
    write(results, info(40, suite="other"), [1.0] * 4)
    assert "2 series" in run("trend", "results", "--method", "softmax*").stdout
    assert "8 series" in run("trend", "results").stdout
    assert "30 runs, 2026-01-01 to 2026-02-02; 4 series" in run("trend", "results", "--suite", "nightly").stdout


def test_memory_has_a_trend_too(run: Run, results: Path) -> None:
    done = run("trend", "results", "--metric", "memory")
    assert "MORE" in done.stdout
    assert "954 MiB" in done.stdout


def test_a_page_and_a_picture_are_written(run: Run, results: Path, tmp_path: Path) -> None:
    done = run("trend", "results", "--html", "trend.html", "--png", "trend.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["trend.html", "trend.png"]
    assert (tmp_path / "trend.html").read_text(encoding="utf-8").count("<svg") == 4
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


def test_what_is_there_already_is_refused_before_anything_is_copied(run: Run, results: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted((results / "nightly").iterdir())
    run("history", "add", str(first), "--to", "kept")
    assert "is in kept already" in refused(run("history", "add", str(second), str(first), "--to", "kept"))
    assert len(list((tmp_path / "kept/nightly").iterdir())) == 1
    assert "are the same run" in refused(run("history", "add", str(second), str(second), "--to", "kept"))


def test_a_run_that_is_not_whole_or_is_being_written_is_refused(run: Run, tmp_path: Path) -> None:
    short = write(tmp_path / "short", info(1), [1.0] * 4, replicates=1)
    words = refused(run("history", "add", str(short), "--to", "kept"))
    assert "is not whole: 4 cells have fewer than 2 replicates" in words
    assert f"attnbench run --resume {short}" in words
    whole = write(tmp_path / "whole", info(2), [1.0] * 4)
    with FolderLock(whole):
        assert "still being written" in refused(run("history", "add", str(whole), "--to", "kept"))


def test_what_is_no_run_cannot_be_added(run: Run, tmp_path: Path) -> None:
    done = run("history", "add", str(tmp_path), "--to", "kept")
    assert done.returncode == 1
    assert "is not a run folder" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trend", "nowhere"], "nowhere is no folder"),
        (["trend", "cache"], "cache holds no run; a history is a folder of <suite>/<run id>/ folders"),
        (["history", "list", "nonsense://x"], "nonsense:// is no place for a history"),
        (["trend", "results", "--suite", "nigthly"], "did you mean 'nightly'?"),
        (["trend", "results", "--method", "linear.ful"], "did you mean 'linear.full'?"),
        (["trend", "results", "--metric", "speed"], "--metric speed: one of time, memory"),
        (["trend", "results", "--margin", "much"], "--margin much: write a share"),
        (["trend", "results", "--since", "yesterday"], "--since yesterday: write a date as 2026-01-31"),
        (["trend", "results", "--png", "trend.jpg"], "--png trend.jpg: a picture is .png, .svg or .pdf"),
        (["trend", "results", "--html", "results/nightly/20260102-030405-000001/run.json/page.html"], "run.json is no folder"),
        (["trend", "results", "--fail-on", "anything"], "--fail-on anything: write --fail-on regression"),
    ],
)
def test_bad_input_is_refused_in_words(run: Run, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "cache").mkdir()
    write(tmp_path / "results", info(1), [1.0] * 4)
    assert said in refused(run(*words))


def test_neither_command_imports_torch_and_no_picture_imports_no_matplotlib(tmp_path: Path) -> None:
    write(tmp_path / "results", info(1), [1.0] * 4)
    code = (
        "import sys\nfrom attnbench.cli.app import main\nsys.argv = ['attnbench', *{words}]\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code, left.code\n"
        "heavy = {{'torch', 'pandas', 'matplotlib', 'fsspec'}} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    for words in (["trend", "results", "--html", "page.html"], ["history", "list", "results"]):
        program = code.format(words=json.dumps(words))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
