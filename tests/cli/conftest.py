"""Running the real command in a real process, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attnbench.cli.app import main
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Counter, Measured, Series
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, ReportSpec, Suite
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation

PLUGINS = Path(__file__).parents[1] / "plugins"
Run = Callable[..., subprocess.CompletedProcess[str]]
Shared = Callable[..., tuple[Path, subprocess.CompletedProcess[str]]]


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


def end(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Wait for what was started."""
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def start(plugins: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `attnbench …`; its output is captured, its folder is tmp_path."""

    def _start(*arguments: str, **env: str) -> subprocess.Popen[str]:
        return begin(tmp_path, *arguments, **env)

    return _start


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Run `attnbench …` to its end, beside files, for several tests of a module: the folder, and what was printed."""

    def _run(*arguments: str, files: dict[str, str] | None = None, **env: str) -> tuple[Path, subprocess.CompletedProcess[str]]:
        folder = tmp_path_factory.mktemp("shared")
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        path = os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")])
        done = end(begin(folder, *arguments, PYTHONPATH=path, XDG_CACHE_HOME=str(folder / "cache"), **env))
        assert done.returncode == 0, done.stderr
        return folder, done

    return _run


@pytest.fixture
def attnbench(start: Callable[..., subprocess.Popen[str]]) -> Run:
    """Run `attnbench …` to its end."""

    def _run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return end(start(*arguments, **env))

    return _run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `attnbench …` in this process."""

    def _run(*words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["attnbench", *words])
        with pytest.raises(SystemExit) as left:
            main()
        code, out = left.value.code, capsys.readouterr()
        return subprocess.CompletedProcess(words, int(code or 0), out.out, out.err)

    return _run


@pytest.fixture(scope="module")
def warm() -> Iterator[Isolation]:
    """A server that knows the fixture attentions; to start one takes two seconds."""
    with Isolation(packages=PLUGINS) as isolation:
        yield isolation


@pytest.fixture
def here(run: Run, plugins: Path, warm: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `attnbench …` in this process, in tmp_path; whom it would start a server for is asked in one that is warm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Isolation, "_request", warm._request)
    return run


@pytest.fixture
def suite(tmp_path: Path) -> Callable[[str], str]:
    """Write a suite file; gives its name."""

    def _write(text: str) -> str:
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        return "s.yaml"

    return _write


@pytest.fixture
def only_run(tmp_path: Path) -> Callable[[], Path]:
    """The one run folder there is."""

    def _find() -> Path:
        (folder,) = (tmp_path / "results").glob("*/*")
        return folder

    return _find


def records(folder: Path) -> list[Record]:
    """All records of a run folder."""
    return RunFolder(folder).records()


def _stored(results: Path, name: str, plots: tuple[str, ...] = ()) -> Path:
    """A run of two methods at two lengths; plots take their time."""
    names = ("softmax.sdpa", "linear.chunked")
    cells = tuple(Cell(method=method, problem=Problem(N=N)) for N in (512, 1024) for method in names)
    methods = tuple(Method(name=method) for method in names)
    spec = ReportSpec.model_validate({"tables": ("summary",), "plots": plots})
    info = RunInfo(
        id=name,
        suite=Suite(name="made", device="cpu", axes=Axes(N=(512, 1024)), methods=methods, report=spec),
        command="attnbench run made",
        started="2026-01-02T03:04:05+00:00",
        environment={},
        environment_digest="e",
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=2**34, roof={}),
        methods={},
        cells=cells,
    )
    folder = RunFolder.create(results, info)
    for number, cell in enumerate(cells):
        outcome = Measured(samples={"time": Series(unit="s", values=(0.001 * (number + 1),) * 3)})
        folder.append(Record(job=Job(cell=cell), outcome=outcome, environment="e", started="x"))
    return folder.path


@pytest.fixture
def stored() -> Callable[..., Path]:
    """Store a small run: where results are, its name, its plots (none); gives its folder."""
    return _stored


METHODS = tuple(f"made.up_{i}" for i in range(10))
LENGTHS = tuple(2**i for i in range(9, 17))
WORKLOADS = (Workload.FORWARD, Workload.FORWARD_BACKWARD)
# what a worker on a CPU says beside fifty samples
FACTS: dict[str, Scalar | None] = {
    **{"clock": "wall", "stop": "budget", "warmup_calls": 20, "loop_seconds": 0.4964159409937565, "batch": 3, "threads": 2},
    **{"deterministic": False, "others_percent": 0.145, "load_1min": 1.697265625, "steal_percent": 0.0},
    **{"cgroup_throttled": None, "governor": None},
}
MEMORY = {
    **{f"counter_{i}": Counter(bytes=None, source="torch's CUDA allocator", reason="this cell ran on a CPU") for i in range(9)},
    "torch_profiler_peak": Counter(bytes=2**26, source="running sum of the memory events of torch's profiler"),
}


def _cells() -> list[Cell]:
    """160."""
    return [Cell(method=m, problem=Problem(N=N), workload=w) for N in LENGTHS for w in WORKLOADS for m in METHODS]


def _written(folder: Path, slower: float, replicates: int) -> Path:
    """A run as workers write it, of so many time passes a cell and three memory passes."""
    folder.mkdir()
    suite = Suite(name="large", device="cpu", axes=Axes(N=LENGTHS), methods=tuple(Method(name=m) for m in METHODS))
    info = RunInfo(
        id=folder.name,
        suite=suite,
        command="attnbench run large",
        started="2026-01-02T03:04:05+00:00",
        environment={},
        environment_digest="e",
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=2**34, roof={}),
        methods={},
        cells=tuple(_cells()),
    )
    (folder / "run.json").write_text(info.model_dump_json())
    with (folder / "records.jsonl").open("w") as file:
        for number, cell in enumerate(_cells()):
            for phase, count in ((Pass.TIME, replicates), (Pass.MEMORY, 3)):
                outcome = _timed(slower * (1 + number)) if phase is Pass.TIME else Measured(memory=MEMORY)
                line = Record(job=Job(cell=cell, phase=phase), outcome=outcome, environment="e", started="x").line()
                file.writelines(line.replace('"replicate":0', f'"replicate":{r}') + "\n" for r in range(count))
    return folder


def _timed(scale: float) -> Measured:
    values = tuple(scale * (1e-3 + 1e-6 * ((i * 7919) % 50)) for i in range(50))
    samples = {"time": values, "warmup": values[:8], "first_call": values[:1]}
    return Measured(samples={name: Series(unit="s", values=found) for name, found in samples.items()}, facts=FACTS)


@pytest.fixture
def written() -> Callable[[Path, float, int], Path]:
    """Write a run of 160 cells: its folder, a factor on all times, time passes a cell."""
    return _written
