"""Running the real command in a real process, in a folder of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from attnbench.places.station import Station
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass, Roof, Surroundings
from attnbench.schema.outcome import Counter, Failed, Measured, Series
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.session import scout
from attnbench.store.run_folder import RunFolder, StoreError
from attnbench.worker.isolate import Isolation

PLUGINS = Path(__file__).parents[1] / "plugins"
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]
Start = Callable[..., subprocess.Popen[str]]
Write = Callable[[str], str]
Find = Callable[[], Path]
Stored = Callable[..., Path]
InfoOf = Callable[..., RunInfo]
Refused = Callable[..., str]
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def committed(folder: Path, message: str) -> None:
    """Commit all that lies in a folder, which becomes a repository where it is none."""
    for words in (("init", "-q"), ("add", "."), ("commit", "--allow-empty", "-qm", message)):
        subprocess.run([*GIT, "-C", str(folder), *words], check=True)


def wait_for_records(only_run: Find, count: int, wanted: Callable[[Record], bool] = bool) -> None:
    """Wait until the one run has so many records, of those that are wanted."""
    end = time.monotonic() + 120
    while True:
        assert time.monotonic() < end
        # there may be no run yet, or no whole run.json
        with suppress(ValueError, StoreError):
            if sum(map(wanted, RunFolder(only_run()).records())) >= count:
                return
        time.sleep(0.02)


def keep(folder: Path, info: RunInfo, records: Iterable[Record]) -> Path:
    """Write a run folder with the two files that count."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(info.model_dump_json())
    (folder / "records.jsonl").write_text("".join(f"{record.line()}\n" for record in records))
    return folder


def begin(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """Start `attnbench …` in a folder; its output is captured."""
    return subprocess.Popen(
        [sys.executable, "-m", "attnbench", *arguments],
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def end(process: subprocess.Popen[str]) -> Done:
    """Wait for what was started."""
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def fine(done: Done) -> Done:
    """A command that ended well."""
    assert done.returncode == 0, done
    return done


@pytest.fixture
def start(plugins: Path, tmp_path: Path) -> Start:
    """Start `attnbench …`; its output is captured, its folder is tmp_path."""
    return partial(begin, tmp_path)


@pytest.fixture
def attnbench(start: Start) -> Run:
    """Run `attnbench …` to its end."""
    return lambda *arguments, **env: end(start(*arguments, **env))


@pytest.fixture
def run(command: Run) -> Run:
    """Run `attnbench …` in this process."""
    return command


def with_high_roofs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Give this machine roofs under which nothing is impossible, for to measure one takes two seconds, and another cache."""
    # the highest roof that is known is kept for all later runs of whoever has the cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    survey, high = scout._survey, Roof(flops_per_second=1e18, bytes_per_second=1e16)

    def surveyed(device: str, ceilings: tuple[str, ...], station: Station) -> Surroundings:
        return survey(device, (), station).model_copy(update={"roof": dict.fromkeys(ceilings, high)})

    monkeypatch.setattr(scout, "_survey", surveyed)


@pytest.fixture
def roofed(run: Run, plugins: Path, place: None, warm: Isolation, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `attnbench …` in this process, in tmp_path; whom it would start a server for is asked in one that is warm."""
    monkeypatch.setattr(Isolation, "_request", warm._request)
    return run


@pytest.fixture
def here(roofed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As `roofed`, under roofs that are not measured."""
    with_high_roofs(monkeypatch, tmp_path)
    return roofed


@pytest.fixture
def suite(tmp_path: Path) -> Write:
    """Write a suite file; gives its name."""

    def _write(text: str) -> str:
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        return "s.yaml"

    return _write


@pytest.fixture
def only_run(tmp_path: Path) -> Find:
    """The one run folder there is."""

    def _find() -> Path:
        (folder,) = (tmp_path / "results").glob("*/*")
        return folder

    return _find


def times(*values: float) -> Measured:
    """Samples of a time pass, in seconds."""
    return Measured(samples={"time": Series(unit="s", values=values)})


def memory(size: float) -> Measured:
    """What a memory pass on a CPU counts."""
    return Measured(memory={"host_rss_peak": Counter(bytes=int(size), source="VmHWM")})


def as_record(cell: Cell, outcome: Measured | Failed, replicate: int = 0, phase: Pass = Pass.TIME) -> Record:
    """A line of records.jsonl."""
    job = Job(cell=cell, replicate=replicate, phase=phase)
    return Record(job=job, outcome=outcome, environment="e", started="2026-01-01T03:04:06+00:00")


@pytest.fixture
def stored(info_of: InfoOf) -> Stored:
    """Store a small run of two methods at two lengths: where results are, its name, plots (they take their time), how slow."""

    def _stored(results: Path, name: str, plots: tuple[str, ...] = (), slower: float = 1.0) -> Path:
        cells = [
            Cell(method=method, problem=Problem(N=N)) for N in (512, 1024) for method in ("softmax.sdpa", "linear.chunked")
        ]
        suite = {"name": "made", "replicates": 3, "report": {"tables": ["summary"], "plots": plots}}
        folder = RunFolder.create(results, info_of(cells, suite, id=name, command="attnbench run made"))
        for number, cell in enumerate(cells):
            folder.append(as_record(cell, times(*[0.001 * slower * (number + 1)] * 3)))
        return folder.path

    return _stored
